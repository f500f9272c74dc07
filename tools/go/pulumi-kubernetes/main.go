// The Kubernetes provider plugin for Pulumi, started as its upstream main does.
//
// Upstream's own main embeds files that are generated at release and are not part of the module, so it cannot be
// built from a module proxy. schema.json and terraform-mapping.json are copied from the module beside this file before the build.
package main

import (
	_ "embed"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

//go:embed schema.json
var schema []byte

//go:embed terraform-mapping.json
var mapping []byte

func main() {
	provider.Serve("kubernetes", version.Version, schema, mapping)
}
