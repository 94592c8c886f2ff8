// A number that does not fit: the compiler warns of the line, as in any function.
// any: 1 warning: conversion from 'double' to 'int'

#pragma GCC diagnostic warning "-Wconversion"

#include <unio/task.hpp>

unio::task<int> about_four() { co_return 3.7; }
