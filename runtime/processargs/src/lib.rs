//! The processargs message: what a new process finds on its bootstrap channel.
#![no_std]
