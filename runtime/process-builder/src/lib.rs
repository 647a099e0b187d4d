//! Creates, loads and starts a process from an ELF image.
#![no_std]
