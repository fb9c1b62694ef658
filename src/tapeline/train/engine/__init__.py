"""The code that determines the result: the loop in the graph, the host around it, and the state of both."""
