"""A second reading of the norm: encoder and decoder that share nothing with the product."""
