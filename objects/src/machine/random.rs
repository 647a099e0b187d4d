//! Random numbers.

/// A source of unpredictable bytes.
pub trait Random {
    /// Fills `out` with unpredictable bytes.
    fn random(&mut self, out: &mut [u8]);
    /// Adds entropy to the source of [`Self::random`].
    fn add_entropy(&mut self, data: &[u8]);
}
