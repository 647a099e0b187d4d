//! VMARs against an array of pages.

use alloc::vec::Vec;

use super::*;
use crate::containers::name::Name;
use crate::fake::FakeMachine;
use crate::machine::USER_BASE;
use crate::tests::one_process;
use proptest::prelude::*;

const R: Perm = Perm { read: true, write: false, execute: false };
const RW: Perm = Perm { read: true, write: true, execute: false };
/// Pages of the region that the model covers.
const PAGES: u64 = 48;

struct World {
    kernel: Kernel<FakeMachine>,
    aspace: Key,
    region: Id<Vmar>,
    vmos: Vec<Id<Vmo>>,
}

impl World {
    fn new() -> World {
        let (mut kernel, _, root, aspace) = one_process(10_000);
        let flags = VmarFlags { specific: true, read: true, write: true, execute: true };
        let (region, _) = kernel.vmar_allocate(root, Place::At(0), PAGES * PAGE, flags).unwrap();
        let mut vmos = Vec::new();
        for n in 0..3u8 {
            let vmo = kernel.vmo_create(PAGES * PAGE, false).unwrap();
            kernel.add_ref(vmo.object());
            // Each page contains its own number.
            for page in 0..PAGES {
                kernel.vmo_write(vmo, page * PAGE, &[n + 1, page as u8]).unwrap();
            }
            vmos.push(vmo);
        }
        World { kernel, aspace, region, vmos }
    }

    fn map(&mut self, place: Place, vmo: usize, page: u64, pages: u64, perm: Perm) -> Result<u64, Status> {
        let vmo = self.vmos[vmo];
        let request = MapRequest { vmo, offset: page * PAGE, len: pages * PAGE, perm, max: RW, fixed: false };
        match pages.is_multiple_of(2) {
            true => self.kernel.vmar_map_to_fill(self.region, place, request),
            false => self.kernel.vmar_map(self.region, place, request),
        }
    }

    /// What a program sees at a page of the region: its mark, and whether it is writable.
    fn look(&mut self, page: u64) -> Option<([u8; 2], bool)> {
        let address = USER_BASE + page * PAGE;
        let mut mark = [0; 2];
        self.kernel.copy_in(self.aspace, address, &mut mark).ok()?;
        let fault = self.kernel.page_fault(self.aspace, address, true, false);
        let by_kernel = self.kernel.check_out(self.aspace, address, 1);
        assert_eq!(fault.is_ok(), by_kernel.is_ok());
        Some((mark, fault.is_ok()))
    }
}

#[derive(Clone, Debug)]
enum Op {
    Map { vmo: usize, from: u64, at: u64, pages: u64, write: bool, over: bool },
    MapAnywhere { vmo: usize, pages: u64 },
    Unmap { at: u64, pages: u64 },
    Protect { at: u64, pages: u64, write: bool },
    Look(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let (at, pages) = (0..PAGES, 1..9u64);
    prop_oneof![
        (0..3usize, 0..PAGES, at.clone(), pages.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(vmo, from, at, pages, write, over)| Op::Map { vmo, from, at, pages, write, over }),
        (0..3usize, pages.clone()).prop_map(|(vmo, pages)| Op::MapAnywhere { vmo, pages }),
        (at.clone(), pages.clone()).prop_map(|(at, pages)| Op::Unmap { at, pages }),
        (at.clone(), pages, any::<bool>()).prop_map(|(at, pages, write)| Op::Protect { at, pages, write }),
        at.prop_map(Op::Look),
    ]
}

proptest! {
    #[test]
    fn behaves_as_an_array_of_pages(ops in proptest::collection::vec(op(), 0..60)) {
        let mut world = World::new();
        let mut model: Vec<Option<([u8; 2], bool)>> = std::vec![None; PAGES as usize];
        for op in ops {
            match op {
                Op::Map { vmo, from, at, pages, write, over } => {
                    let fits = at + pages <= PAGES && from + pages <= PAGES;
                    let place = if over { Place::Over(at * PAGE) } else { Place::At(at * PAGE) };
                    if from + pages > PAGES {
                        continue;
                    }
                    let result = world.map(place, vmo, from, pages, if write { RW } else { R });
                    let free = fits && model[at as usize..(at + pages) as usize].iter().all(Option::is_none);
                    prop_assert_eq!(result.is_ok(), fits && (over || free), "{:?}", result);
                    if result.is_ok() {
                        for i in 0..pages {
                            model[(at + i) as usize] = Some(([vmo as u8 + 1, (from + i) as u8], write));
                        }
                    }
                }
                Op::MapAnywhere { vmo, pages } => {
                    let place = Place::Anywhere { align: PAGE, limit: None };
                    let room = model.windows(pages as usize).any(|w| w.iter().all(Option::is_none));
                    match world.map(place, vmo, 0, pages, R) {
                        Ok(base) => {
                            let at = (base - USER_BASE) / PAGE;
                            for i in 0..pages {
                                prop_assert_eq!(model[(at + i) as usize], None);
                                model[(at + i) as usize] = Some(([vmo as u8 + 1, i as u8], false));
                            }
                        }
                        Err(status) => prop_assert!(!room && status == Status::NO_RESOURCES),
                    }
                }
                Op::Unmap { at, pages } => {
                    let fits = at + pages <= PAGES;
                    let result = world.kernel.vmar_unmap(world.region, USER_BASE + at * PAGE, pages * PAGE, true);
                    prop_assert_eq!(result.is_ok(), fits);
                    if fits {
                        model[at as usize..(at + pages) as usize].fill(None);
                    }
                }
                Op::Protect { at, pages, write } => {
                    let perm = if write { RW } else { R };
                    let all = at + pages <= PAGES
                        && model[at as usize..(at + pages) as usize].iter().all(Option::is_some);
                    let result = world.kernel.vmar_protect(world.region, USER_BASE + at * PAGE, pages * PAGE, perm, true);
                    prop_assert_eq!(result.is_ok(), all);
                    if all {
                        for page in model[at as usize..(at + pages) as usize].iter_mut().flatten() {
                            page.1 = write;
                        }
                    }
                }
                Op::Look(at) => prop_assert_eq!(world.look(at), model[at as usize]),
            }
            world.kernel.reap();
        }
        for at in 0..PAGES {
            prop_assert_eq!(world.look(at), model[at as usize]);
        }
        // The machine's mappings never allow more than the model.
        let space = world.kernel.machine.mapped.values().next().unwrap();
        for (&address, &(_, perm)) in space {
            let page = model[((address - USER_BASE) / PAGE) as usize];
            prop_assert!(page.is_some_and(|(_, write)| write || !perm.write));
        }
    }
}

#[test]
fn a_sub_region_is_removed_as_a_whole() {
    let mut world = World::new();
    let flags = VmarFlags { specific: true, read: true, write: true, execute: false };
    let (sub, base) = world.kernel.vmar_allocate(world.region, Place::At(4 * PAGE), 4 * PAGE, flags).unwrap();
    let request = MapRequest { vmo: world.vmos[0], offset: 0, len: PAGE, perm: R, max: R, fixed: false };
    world.kernel.vmar_map(sub, Place::At(0), request).unwrap();
    assert_eq!(world.kernel.vmar_unmap(world.region, base, PAGE, true), Err(Status::INVALID_ARGS));
    assert!(world.look(4).is_some());
    assert_eq!(world.kernel.vmar_unmap(world.region, base - PAGE, 6 * PAGE, true), Ok(()));
    assert_eq!(world.look(4), None);
    assert_eq!(world.kernel.vmar_unmap(sub, base, PAGE, true), Err(Status::BAD_STATE));
}

#[test]
fn a_process_leaves_nothing_behind() {
    let mut world = World::new();
    world.map(Place::At(0), 0, 0, 8, RW).unwrap();
    world.look(3);
    for vmo in world.vmos.clone() {
        world.kernel.drop_ref(vmo.object());
    }
    let process = world.kernel.objects.get(world.kernel.root_job().unwrap()).unwrap().processes;
    let process = Id::new(world.kernel.objects.after(process, None).unwrap());
    world.kernel.process_kill(process, 7);
    assert_eq!(world.kernel.objects.get(process).unwrap().return_code, 7);
    world.kernel.close(crate::core::handle::Handle { object: process.object(), rights: abi::Rights::NONE });
    world.kernel.reap();
    assert_eq!(world.kernel.machine.frames_in_use(), 0);
    // Only the root job stays.
    assert_eq!(world.kernel.census(), (1, 0, 0));
    assert!(world.kernel.machine.mapped.is_empty());
}

#[derive(Clone, Debug)]
enum Nested {
    Allocate { within: usize, at: u64, pages: u64 },
    Map { within: usize, at: u64, pages: u64 },
    Unmap { within: usize, at: u64, pages: u64 },
    Destroy(usize),
}

fn nested() -> impl Strategy<Value = Nested> {
    let (which, at) = (0..8usize, 0..PAGES);
    prop_oneof![
        (which.clone(), at.clone(), 1..PAGES / 2).prop_map(|(within, at, pages)| Nested::Allocate {
            within,
            at,
            pages
        }),
        (which.clone(), at.clone(), 1..4u64).prop_map(|(within, at, pages)| Nested::Map { within, at, pages }),
        (which.clone(), at, 1..20u64).prop_map(|(within, at, pages)| Nested::Unmap { within, at, pages }),
        which.prop_map(Nested::Destroy),
    ]
}

proptest! {
    /// However regions are nested, look-ups find the mapping that covers an address, and mappings are listed in order.
    #[test]
    fn addresses_are_found_in_nested_regions(ops in proptest::collection::vec(nested(), 0..80)) {
        let mut world = World::new();
        let mut regions = std::vec![(world.region, 0, PAGES)];
        // Address of each mapping, and offset in its VMO.
        let mut model: Vec<(u64, u64)> = Vec::new();
        for op in ops {
            let pick = |which: usize, regions: &[(Id<Vmar>, u64, u64)]| regions[which % regions.len()];
            match op {
                Nested::Allocate { within, at, pages } => {
                    let (id, base, _) = pick(within, &regions);
                    let flags = VmarFlags { specific: true, read: true, write: true, execute: true };
                    let made = world.kernel.vmar_allocate(id, Place::At(at * PAGE), pages * PAGE, flags);
                    if let Ok((id, _)) = made {
                        world.kernel.add_ref(id.object());
                        regions.push((id, base + at, base + at + pages));
                    }
                }
                Nested::Map { within, at, pages } => {
                    let (id, base, _) = pick(within, &regions);
                    let request =
                        MapRequest { vmo: world.vmos[0], offset: 0, len: pages * PAGE, perm: R, max: RW, fixed: false };
                    if world.kernel.vmar_map(id, Place::At(at * PAGE), request).is_ok() {
                        model.push((base + at, pages));
                    }
                }
                Nested::Unmap { within, at, pages } => {
                    let (id, base, _) = pick(within, &regions);
                    let (from, to) = (base + at, base + at + pages);
                    let cut = model.iter().any(|(at, pages)| *at < to && from < at + pages && (*at < from || at + pages > to));
                    if !cut && world.kernel.vmar_unmap(id, USER_BASE + from * PAGE, pages * PAGE, true).is_ok() {
                        model.retain(|(at, _)| *at < from || *at >= to);
                    }
                }
                Nested::Destroy(which) => {
                    let (id, from, to) = pick(which, &regions);
                    if id != world.region && world.kernel.vmar_destroy(id).is_ok() {
                        model.retain(|(at, _)| *at < from || *at >= to);
                    }
                }
            }
            world.kernel.reap();
            regions.retain(|(id, ..)| world.kernel.objects.get(*id).unwrap().aspace.is_some());
            model.sort_unstable();
            let told = |mapping: &Mapping| ((mapping.base - USER_BASE) / PAGE, mapping.len / PAGE);
            for page in 0..PAGES {
                let expected = model.iter().copied().find(|(at, pages)| (*at..at + pages).contains(&page));
                let found = world.kernel.mapping_at(world.aspace, USER_BASE + page * PAGE).map(told);
                prop_assert_eq!(found, expected);
                let from = model.iter().copied().find(|(at, _)| *at >= page);
                prop_assert_eq!(world.kernel.mapping_from(world.aspace, USER_BASE + page * PAGE).map(told), from);
            }
            prop_assert_eq!(world.kernel.mappings(world.aspace).map(told).collect::<Vec<_>>(), model.clone());
        }
        // The flat index forgets destroyed regions.
        world.kernel.vmar_destroy(world.region).unwrap();
        prop_assert!(world.kernel.aspace(world.aspace).unwrap().is_plain());
    }
}

/// Memory that is no longer executable is not mapped executable: otherwise the memory check panics.
#[test]
fn execute_permission_is_removed_from_mapped_pages() {
    const RX: Perm = Perm { read: true, write: false, execute: true };
    const ALL: Perm = Perm { read: true, write: true, execute: true };
    let mut world = World::new();
    let vmo = world.vmos[0];
    let request = MapRequest { vmo, offset: 0, len: 4 * PAGE, perm: RX, max: ALL, fixed: false };
    let at = world.kernel.vmar_map(world.region, Place::At(0), request).unwrap();
    let fetch = |world: &mut World, page: u64| world.kernel.page_fault(world.aspace, at + page * PAGE, false, true);
    for (before, after) in [(RX, RW), (RX, R), (ALL, RW), (ALL, R), (RX, Perm::default())] {
        world.kernel.vmar_protect(world.region, at, 4 * PAGE, before, false).unwrap();
        assert_eq!(fetch(&mut world, 1), Ok(()));
        world.kernel.check_memory();
        // One of the pages, then all of them.
        for (from, pages) in [(1, 1), (0, 4)] {
            world.kernel.vmar_protect(world.region, at + from * PAGE, pages * PAGE, after, false).unwrap();
            world.kernel.check_memory();
            assert_eq!(fetch(&mut world, from), Err(Status::ACCESS_DENIED));
        }
    }
}

#[test]
fn random_places_leave_the_first_tebibyte_to_fixed_addresses() {
    let mut kernel = Kernel::new(FakeMachine::new(100)).unwrap();
    let job = kernel.root_job().unwrap();
    let vmo = kernel.vmo_create(PAGE, false).unwrap();
    let request = MapRequest { vmo, offset: 0, len: PAGE, perm: R, max: R, fixed: false };
    for _ in 0..500 {
        let (_, root) = kernel.process_create(job, Name::default()).unwrap();
        let place = Place::Anywhere { align: PAGE, limit: None };
        let at = kernel.vmar_map(root, place, request).unwrap();
        assert!(at >= 1 << 40, "{at:#x}");
    }
}
