"""memlint in an editor: a language server over the same session that the command line uses."""
