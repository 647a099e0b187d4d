//! Counts instructions, and bytes of memory that the system uses.

use abi::{ZX_INFO_KMEM_STATS, zx_info_kmem_stats_t};
use zx::{Info, Resource, Unowned};

/// See the module's description.
pub struct Meter {
    /// The series that is measured.
    pub series: &'static str,
    /// Counter ticks for each instruction.
    ticks: f64,
    resource: Option<Unowned<'static, Resource>>,
}

impl Meter {
    /// Calibrates the counter with a loop of known length.
    pub fn new() -> Meter {
        const TURNS: u64 = 1_000_000;
        let start = zx::ticks_get();
        zx::probe::count_down(TURNS);
        let ticks = (zx::ticks_get() - start) as f64 / (TURNS * zx::probe::COUNT_DOWN_INSTRUCTIONS) as f64;
        println!("calibration {ticks:.4}");
        Meter { series: "", ticks, resource: zx::startup::resource() }
    }

    /// Measures the cost of one of the `times` operations that `operations` carries out.
    pub fn cost(
        &self,
        operation: &str,
        count: usize,
        times: usize,
        operations: impl FnOnce() -> zx::Result<()>,
    ) -> zx::Result<()> {
        let start = zx::ticks_get();
        operations()?;
        let ticks = zx::ticks_get() - start;
        println!("cost {} {operation} {count} {:.0}", self.series, ticks as f64 / self.ticks / times as f64);
        Ok(())
    }

    /// Bytes of memory in use, as the server reports them; 0 if this program may not ask.
    pub fn memory(&self) -> u64 {
        let stats = |resource: &Unowned<'static, Resource>| {
            resource.info_record::<zx_info_kmem_stats_t>(ZX_INFO_KMEM_STATS).ok()
        };
        let Some(stats) = self.resource.as_ref().and_then(stats) else { return 0 };
        stats.total_bytes - stats.free_bytes - stats.free_heap_bytes
    }

    /// Prints how much memory each of `count` objects takes. `before` was measured when there were none.
    pub fn object(&self, what: &str, count: usize, before: u64) {
        println!("memory {what} {count} {}", self.memory().saturating_sub(before) / count as u64);
    }
}

/// Random places (xorshift).
pub struct Places(u64);

impl Places {
    /// Always the same sequence.
    pub fn new() -> Places {
        Places(0x9e37_79b9_7f4a_7c15)
    }

    /// A place below `count`.
    pub fn next(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % count as u64) as usize
    }
}
