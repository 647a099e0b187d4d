//! Reads the system-call definitions and writes what is generated from them.
