//! The root task: owns what the kernel hands over, starts and watches the servers.
#![no_std]
