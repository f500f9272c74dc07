"""The REST API, one module per family; `families.py` lists them."""
