//! What the processor's numbers for exceptions mean.

/// Whether the processor's code for a page fault says that the access was a store.
pub fn is_write(code: u64) -> bool {
    code & 2 != 0
}

/// What a program did to raise an exception, for messages.
pub fn exception_name(number: u64) -> &'static str {
    match number {
        0 => "divided by zero",
        6 => "met an undefined instruction (a panic ends so)",
        13 => "broke a protection rule",
        _ => "raised a processor exception",
    }
}
