// Nothing: the program that has the suites' precompiled header.
