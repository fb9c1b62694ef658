"""What decides the bits: the loop in the graph, the host around it, and the state of both."""
