//! The first process: starts init from BOOTFS.
#![no_std]
