"""Nothing is written that is not provably ours: the guard, what it reads in commands, and the one executor."""
