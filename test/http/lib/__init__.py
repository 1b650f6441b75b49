"""What the tests stand on: real nginx, files that know their ID, stores, clients."""
