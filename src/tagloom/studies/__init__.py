"""Studies: variants of a training over seeds and over the values of settings, and what came out of them."""
