//! Scrt1.o, the start file of a program.
#![no_std]
