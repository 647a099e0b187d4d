//! Page tables against a map of pages.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::fake::FakeMachine;
use crate::machine::{PAGE, USER_BASE};
use crate::memory::vmo::CloneKind;
use crate::task::process::Process;
use crate::tests::one_process;

const R: Perm = Perm { read: true, write: false, execute: false };
const RW: Perm = Perm { read: true, write: true, execute: false };
/// Pages of the VMO.
const PAGES: u64 = 40;
/// Pages of the page table.
const TABLE: u64 = 1 << 27;

struct World {
    kernel: Kernel<FakeMachine>,
    process: Id<Process>,
    aspace: Key,
    root: Id<Vmar>,
    vmo: Id<Vmo>,
    table: u64,
}

impl World {
    fn new() -> World {
        let (mut kernel, process, root, aspace) = one_process(10_000);
        let vmo = kernel.vmo_create(PAGES * PAGE, false).unwrap();
        kernel.add_ref(vmo.object());
        let table = kernel.page_table_create(root, Place::At(0), vmo, TABLE * PAGE).unwrap();
        assert_eq!(table, USER_BASE);
        World { kernel, process, aspace, root, vmo, table }
    }

    /// Maps all of a run; returns how many pages were mapped, and why no more.
    fn map(&mut self, at: u64, page: u64, pages: u64, perm: Perm) -> (u64, Result<(), Status>) {
        let mut done = 0;
        while done < pages {
            let part = (self.table + (at + done) * PAGE, page + done, pages - done);
            match self.kernel.page_table_map(self.aspace, self.vmo, part, perm) {
                Ok(some) => done += some,
                Err(status) => return (done, Err(status)),
            }
        }
        (done, Ok(()))
    }

    fn unmap(&mut self, at: u64, pages: u64) {
        let mut done = 0;
        while done < pages {
            done += self.kernel.page_table_unmap(self.aspace, self.table + (at + done) * PAGE, pages - done);
        }
    }

    /// What the machine maps: the page of the VMO at each page of the table, and whether it can be written.
    fn mapped(&self) -> BTreeMap<u64, (u64, bool)> {
        let machine = self.kernel.aspaces.get(self.aspace).unwrap().machine;
        let page_of = |frame| {
            let shows =
                |page: &u64| self.kernel.vmo_page_if_there(self.vmo, *page).is_some_and(|(own, _)| own == frame);
            (0..PAGES).find(shows).unwrap()
        };
        let mapped = self.kernel.machine.mapped[&machine.0].iter();
        mapped.map(|(at, (frame, perm))| ((at - self.table) / PAGE, (page_of(*frame), perm.write))).collect()
    }
}

#[derive(Clone, Debug)]
enum Op {
    Map { at: u64, page: u64, pages: u64, write: bool },
    Unmap { at: u64, pages: u64 },
    Write { page: u64 },
    Forbidden(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let at = prop_oneof![0..64u64, TABLE - 64..TABLE];
    prop_oneof![
        (at.clone(), 0..PAGES + 4, 1..24u64, any::<bool>()).prop_map(|(at, page, pages, write)| Op::Map {
            at,
            page,
            pages,
            write
        }),
        (at, prop_oneof![1..24u64, Just(TABLE)]).prop_map(|(at, pages)| Op::Unmap { at, pages }),
        (0..PAGES).prop_map(|page| Op::Write { page }),
        any::<u8>().prop_map(Op::Forbidden),
    ]
}

proptest! {
    #[test]
    fn shows_what_its_owner_mapped_and_nothing_else(ops in proptest::collection::vec(op(), 0..60)) {
        let mut world = World::new();
        let mut model = BTreeMap::new();
        for op in ops {
            match op {
                Op::Map { at, page, pages, write } => {
                    let pages = pages.min(TABLE - at);
                    let (done, result) = world.map(at, page, pages, if write { RW } else { R });
                    prop_assert_eq!(done, pages.min(PAGES.saturating_sub(page)));
                    prop_assert_eq!(result, if done < pages { Err(Status::OUT_OF_RANGE) } else { Ok(()) });
                    model.extend((0..done).map(|n| (at + n, (page + n, write))));
                }
                Op::Unmap { at, pages } => {
                    let pages = pages.min(TABLE - at);
                    world.unmap(at, pages);
                    model.retain(|page, _| !(at..at + pages).contains(page));
                }
                Op::Write { page } => world.kernel.vmo_write(world.vmo, page * PAGE, &[page as u8; 8]).unwrap(),
                Op::Forbidden(which) => {
                    let World { kernel, vmo, aspace, .. } = &mut world;
                    let result = match which % 4 {
                        0 => kernel.vmo_decommit(*vmo, 0, PAGE),
                        1 => kernel.vmo_create_clone(*vmo, CloneKind::Snapshot, 0, PAGE, false).map(drop),
                        2 => kernel.page_fault(*aspace, USER_BASE, false, false),
                        _ => kernel.copy_in_forced(*aspace, USER_BASE, &mut [0]),
                    };
                    prop_assert!(result.is_err());
                }
            }
            prop_assert_eq!(&world.mapped(), &model);
            world.kernel.check_memory();
        }
    }
}

#[test]
fn pins_the_pages_of_its_vmo_until_it_is_unmapped() {
    let mut world = World::new();
    assert_eq!(world.map(7, 3, 2, RW), (2, Ok(())));
    let World { kernel, root, vmo, table, .. } = &mut world;
    assert_eq!(kernel.vmo_decommit(*vmo, 0, PAGES * PAGE), Err(Status::BAD_STATE));
    // A part of it keeps pinning.
    kernel.vmar_unmap(*root, *table, PAGE, false).unwrap();
    kernel.vmar_unmap(*root, *table + 7 * PAGE, PAGE, false).unwrap();
    assert_eq!(kernel.vmo_decommit(*vmo, 0, PAGES * PAGE), Err(Status::BAD_STATE));
    kernel.check_memory();
    assert_eq!(world.mapped().into_iter().collect::<Vec<_>>(), [(8, (4, true))]);
    let World { kernel, root, vmo, table, .. } = &mut world;
    kernel.vmar_unmap(*root, *table, TABLE * PAGE, false).unwrap();
    kernel.vmo_decommit(*vmo, 0, PAGES * PAGE).unwrap();
    kernel.vmo_create_clone(*vmo, CloneKind::Snapshot, 0, PAGE, false).unwrap();
    kernel.check_memory();
}

#[test]
fn keeps_its_vmo_until_its_process_has_ended() {
    let World { mut kernel, process, vmo, aspace, table, .. } = World::new();
    kernel.page_table_map(aspace, vmo, (table, 0, 1), RW).unwrap();
    kernel.drop_ref(vmo.object());
    kernel.reap();
    assert!(kernel.objects.get(vmo).is_ok());
    kernel.check_memory();
    kernel.process_kill(process, 0);
    kernel.reap();
    assert!(kernel.objects.get(vmo).is_err());
    kernel.check_memory();
}

#[test]
fn only_plain_memory_of_a_fixed_size_has_one() {
    let World { mut kernel, root, vmo, .. } = World::new();
    let place = Place::Anywhere { align: PAGE, limit: None };
    let resizable = kernel.vmo_create(PAGE, true).unwrap();
    let window = kernel.vmo_create_slice(vmo, 0, PAGE).unwrap();
    for other in [resizable, window] {
        assert_eq!(kernel.page_table_create(root, place, other, PAGE), Err(Status::NOT_SUPPORTED));
    }
}
