//! A hundred thousand mappings in one address space.

use zx::{Vmar, Vmo};

use crate::meter::{Meter, Places};

const COUNTS: [usize; 3] = [1_000, 10_000, 100_000];
/// Measured operations at each count.
const TIMES: usize = 1_000;
const PAGE: usize = 4096;
const READ: u32 = abi::ZX_VM_PERM_READ;
const READ_WRITE: u32 = READ | abi::ZX_VM_PERM_WRITE;

pub fn run(meter: &mut Meter) -> zx::Result<()> {
    let [.., most] = COUNTS;
    let can = abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_CAN_MAP_WRITE | abi::ZX_VM_CAN_MAP_SPECIFIC;
    let (vmar, _) = zx::startup::vmar_root_self().allocate(can, 0, 1 << 40)?;
    let vmo = Vmo::create(((most + TIMES) * PAGE) as u64, 0)?;
    // Every second page of the VMO, so that no two mappings merge. The lists' own pages are allocated before.
    let map = |vmar: &Vmar, page: usize| vmar.map(READ_WRITE, 0, &vmo, (page * PAGE) as u64, PAGE);
    let mut live = vec![usize::MAX; most];
    let mut more = vec![usize::MAX; TIMES];
    for (page, slot) in live.iter_mut().enumerate().take(TIMES) {
        *slot = map(&vmar, page)?;
        zx::probe::write(*slot, 1);
    }
    live.iter().take(TIMES).try_for_each(|at| vmar.unmap(*at, PAGE))?;

    let mut places = Places::new();
    let before = meter.memory();
    let mut have = 0;
    for count in COUNTS {
        for (page, slot) in live[..count].iter_mut().enumerate().skip(have) {
            *slot = map(&vmar, page)?;
        }
        have = count;
        meter.cost("map", count, TIMES, || {
            more.iter_mut().enumerate().try_for_each(|(i, slot)| map(&vmar, most + i).map(|at| *slot = at))
        })?;
        let mut some = || live[places.next(count)];
        meter.cost("protect", count, TIMES, || {
            (0..TIMES).try_for_each(|turn| vmar.protect(if turn % 2 == 0 { READ } else { READ_WRITE }, some(), PAGE))
        })?;
        meter.cost("unmap", count, TIMES, || more.iter().try_for_each(|at| vmar.unmap(*at, PAGE)))?;
    }
    meter.object("mapping", most, before);
    meter.cost("unmap-all", most, most, || vmar.destroy())
}
