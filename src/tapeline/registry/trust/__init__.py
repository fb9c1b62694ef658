"""Who signed what: keys, signatures and the policy that says who may do what. It knows objects of Git, no states."""
