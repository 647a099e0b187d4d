//! Pages that a pager cannot supply: the threads that wait for them get its status.

use abi::Status;

use super::cases;
use crate::check::{Outcome, equal, fails};
use crate::pager_vmo::AccessKind::{self, Called, Mapped};
use crate::pager_vmo::{Access, Supplier, content, words};

cases! {
    "pager.fail.single_page_vmar" => || single_page(Mapped),
    "pager.fail.single_page_vmo" => || single_page(Called),
    "pager.fail.exact_range" => exact_range,
    "pager.fail.several_commits" => several_commits,
    "pager.fail.part_of_a_range" => part_of_a_range,
    "pager.fail.twice" => twice,
    "pager.fail.after_detach" => after_detach,
    "pager.fail.then_supplied" => then_supplied,
    "pager.fail.one_of_several_vmos" => one_of_several_vmos,
    "pager.fail.error_codes" => error_codes,
    "pager.fail.before_asked" => before_asked,
}

fn single_page(how: AccessKind) -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let access = Access::read(how, &vmo, 0, 1)?;
    supplier.asked_to_read(&vmo, 0, 1)?;
    supplier.fail(&vmo, 0, 1, Status::IO)?;
    access.fails(Status::IO)?;
    supplier.unasked()
}

fn exact_range() -> Outcome {
    let (supplier, vmo) = Supplier::with(11)?;
    let access = Access::commit(&vmo, 0, 11)?;
    supplier.asked_to_read(&vmo, 0, 11)?;
    supplier.fail(&vmo, 0, 11, Status::IO)?;
    access.fails(Status::IO)?;
    supplier.unasked()
}

fn several_commits() -> Outcome {
    let (supplier, vmo) = Supplier::with(11)?;
    let accesses = [Access::commit(&vmo, 0, 5)?, Access::commit(&vmo, 0, 5)?, Access::commit(&vmo, 5, 6)?];
    accesses.iter().try_for_each(Access::waits)?;
    supplier.fail(&vmo, 0, 11, Status::IO)?;
    accesses.into_iter().try_for_each(|access| access.fails(Status::IO))?;
    supplier.unasked()
}

/// A request fails as a whole, and so do all accesses that wait for some of its pages.
fn part_of_a_range() -> Outcome {
    let (supplier, vmo) = Supplier::with(20)?;
    let first = Access::commit(&vmo, 2, 8)?;
    supplier.asked_to_read(&vmo, 2, 8)?;
    let second = Access::commit(&vmo, 5, 10)?;
    second.waits()?;
    let third = Access::commit(&vmo, 16, 4)?;
    supplier.asked_to_read(&vmo, 16, 4)?;
    supplier.fail(&vmo, 9, 4, Status::IO)?;
    first.fails(Status::IO)?;
    second.fails(Status::IO)?;
    third.still_waits()?;
    supplier.fail(&vmo, 0, 20, Status::IO)?;
    third.fails(Status::IO)?;
    supplier.unasked()
}

fn twice() -> Outcome {
    let (supplier, vmo) = Supplier::with(11)?;
    let access = Access::commit(&vmo, 0, 11)?;
    supplier.asked_to_read(&vmo, 0, 11)?;
    for page in 0..11 {
        supplier.fail(&vmo, page, 1, Status::IO)?;
    }
    access.fails(Status::IO)?;
    supplier.unasked()
}

fn after_detach() -> Outcome {
    let (supplier, vmo) = Supplier::with(11)?;
    let access = Access::commit(&vmo, 0, 11)?;
    supplier.asked_to_read(&vmo, 0, 11)?;
    supplier.pager.detach_vmo(&vmo)?;
    access.fails(Status::BAD_STATE)?;
    fails(supplier.fail(&vmo, 0, 11, Status::IO), Status::BAD_STATE)?;
    supplier.completed(&vmo)
}

fn then_supplied() -> Outcome {
    let (supplier, vmo) = Supplier::with(11)?;
    let access = Access::commit(&vmo, 0, 11)?;
    supplier.asked_to_read(&vmo, 0, 11)?;
    supplier.fail(&vmo, 0, 11, Status::IO)?;
    access.fails(Status::IO)?;
    // The failure is not remembered: the next access sends a new request.
    let access = Access::commit(&vmo, 0, 11)?;
    supplier.asked_to_read(&vmo, 0, 11)?;
    supplier.supply(&vmo, 0, 11)?;
    access.ends()?;
    equal(words(&vmo, 10, 1)?, vec![content(10)])?;
    supplier.unasked()
}

fn one_of_several_vmos() -> Outcome {
    let supplier = Supplier::new()?;
    let vmos = [supplier.vmo(1, 11, 0)?, supplier.vmo(2, 11, 0)?];
    let [first, second] = [Access::commit(&vmos[0], 0, 11)?, Access::commit(&vmos[1], 0, 11)?];
    first.waits()?;
    second.waits()?;
    supplier.fail(&vmos[0], 0, 11, Status::IO)?;
    first.fails(Status::IO)?;
    second.still_waits()?;
    supplier.asked_to_read(&vmos[1], 0, 11)?;
    supplier.fail(&vmos[1], 0, 11, Status::IO_DATA_INTEGRITY)?;
    second.fails(Status::IO_DATA_INTEGRITY)?;
    supplier.unasked()
}

fn error_codes() -> Outcome {
    let (supplier, vmo) = Supplier::with(1)?;
    let codes = [Status::IO, Status::IO_DATA_INTEGRITY, Status::BAD_STATE, Status::NO_SPACE, Status::BUFFER_TOO_SMALL];
    for how in [Mapped, Called] {
        for code in codes {
            let access = Access::read(how, &vmo, 0, 1)?;
            supplier.asked_to_read(&vmo, 0, 1)?;
            supplier.fail(&vmo, 0, 1, code)?;
            access.fails(code)?;
        }
    }
    for code in [Status::OK, Status::INTERNAL, Status::NO_MEMORY, Status::CANCELED, Status(7), Status(-5000)] {
        fails(supplier.fail(&vmo, 0, 1, code), Status::INVALID_ARGS)?;
    }
    // The status is in the lower half of the word; the upper half must be its sign extension.
    let data = u64::from(Status::IO.0 as u32);
    fails(supplier.pager.op_range(abi::ZX_PAGER_OP_FAIL, &vmo, 0, 4096, data), Status::INVALID_ARGS)
}

/// A request that fails before its packet is dequeued is withdrawn.
fn before_asked() -> Outcome {
    let (supplier, vmo) = Supplier::with(2)?;
    let accesses = [Access::read(Called, &vmo, 0, 1)?, Access::read(Mapped, &vmo, 1, 1)?];
    accesses.iter().try_for_each(Access::waits)?;
    supplier.fail(&vmo, 0, 2, Status::IO)?;
    accesses.into_iter().try_for_each(|access| access.fails(Status::IO))?;
    supplier.unasked()
}
