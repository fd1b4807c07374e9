"""How long, how large and how dear: arithmetic for data past this machine, from a profile measured on one."""
