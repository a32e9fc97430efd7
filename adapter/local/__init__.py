"""The local engine: an embedded AWS for `adapter dev` and the tests (D14). Importing it imports no moto."""
