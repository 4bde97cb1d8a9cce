"""How its runs are done: on this machine or on a cluster, each in a process of its own."""
