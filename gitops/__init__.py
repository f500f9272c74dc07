"""What a change will do, before it does: one preview in, a verdict, a report and a picture out.

`preview` runs the engine and `events` reads what it says; the modules between are pure; `markdown`, `report_json` and
`diagram` write. Secrets are taken out where events become changes (`redaction`), so that nothing behind that door holds
one. It reads any Pulumi program's resources, and of this project needs the catalogue and the rules alone.
"""
