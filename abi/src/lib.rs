//! Zircon's system-call interface as data: numbers, constants, structures, support table.
#![no_std]
