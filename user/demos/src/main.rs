//! Demo programs for the tour.
fn main() {}
