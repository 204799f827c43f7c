"""Who leaves the federation, what it does to the model, and which server rule keeps everyone in."""
