//! IOBuffers: memory regions that two ends share, with disciplines.

use abi::{
    Rights, Status, ZX_IOB_ACCESS_EP0_CAN_MAP_READ as MAP_READ, ZX_IOB_ACCESS_EP0_CAN_MAP_WRITE as MAP_WRITE,
    ZX_IOB_ACCESS_EP0_CAN_MEDIATED_WRITE as WRITE, ZX_IOB_ACCESS_EP1_CAN_MAP_READ as OTHER_MAP_READ,
    ZX_IOB_ACCESS_EP1_CAN_MAP_WRITE as OTHER_MAP_WRITE, ZX_IOB_ACCESS_EP1_CAN_MEDIATED_WRITE as OTHER_WRITE,
    ZX_VM_PERM_READ, ZX_VM_PERM_WRITE, zx_info_vmo_t, zx_iob_region_info_t, zx_iob_region_t, zx_iovec_t,
};
use zx::{
    AsHandleRef, Event, Info, Iob, IobDiscipline, IobSharedRegion, Mapping, MonotonicInstant, Port, Signals, Vmar,
};

use super::{cases, late, raw, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};

cases! {
    "iob.create.sizes" => create_sizes,
    "iob.create.options" => create_options,
    "iob.create.number_of_regions" => create_number_of_regions,
    "iob.create.access" => create_access,
    "iob.create.types" => create_types,
    "iob.create.disciplines" => create_disciplines,
    "iob.create.rights" => create_rights,
    "iob.create.bad_address" => create_bad_address,
    "iob.create.related" => create_related,
    "iob.shared_region.sizes" => shared_region_sizes,
    "iob.shared_region.outlives_its_handle" => shared_region_outlives,
    "iob.shared_region.handle" => shared_region_handle,
    "iob.info.fields" => info_fields,
    "iob.info.regions_swap_ends" => info_regions_swap_ends,
    "iob.info.memory_of_a_process" => info_memory_of_a_process,
    "iob.info.mapping_has_the_region" => info_mapping,
    "iob.name.is_shared" => name_is_shared,
    "iob.signal.peer_closed" => signal_peer_closed,
    "iob.signal.mapping_keeps_the_end" => signal_mapping_keeps,
    "iob.signal.each_mapping_counts" => signal_each_mapping_counts,
    "iob.signal.user" => signal_user,
    "iob.map.both_ends_see" => map_both_ends_see,
    "iob.map.each_region" => map_each_region,
    "iob.map.part" => map_part,
    "iob.map.access_of_each_end" => map_access_of_each_end,
    "iob.map.rights_of_the_handle" => map_rights_of_the_handle,
    "iob.map.no_more_by_protect" => map_no_more_by_protect,
    "iob.map.options" => map_options,
    "iob.map.bounds" => map_bounds,
    "iob.map.specific" => map_specific,
    "iob.map.outlives_both_ends" => map_outlives_both_ends,
    "iob.id.numbers_in_order" => id_numbers_in_order,
    "iob.id.layout" => id_layout,
    "iob.id.full" => id_full,
    "iob.id.damaged" => id_damaged,
    "iob.id.access" => id_access,
    "iob.id.bad_blob" => id_bad_blob,
    "iob.ring.records" => ring_records,
    "iob.ring.wraps" => ring_wraps,
    "iob.ring.full" => ring_full,
    "iob.ring.too_much" => ring_too_much,
    "iob.ring.damaged" => ring_damaged,
    "iob.ring.tags_of_several" => ring_tags_of_several,
    "iob.ring.strobes" => ring_strobes,
    "iob.ring.access" => ring_access,
    "iob.ring.bad_buffer" => ring_bad_buffer,
}

const PAGE: usize = 4096;
const RW: u32 = ZX_VM_PERM_READ | ZX_VM_PERM_WRITE;
const BOTH_MAP: u32 = MAP_READ | MAP_WRITE | OTHER_MAP_READ | OTHER_MAP_WRITE;
const NOWHERE: usize = 0x1000;

fn plain(access: u32, pages: usize) -> zx_iob_region_t {
    Iob::private_region(access, (pages * PAGE) as u64, IobDiscipline::None)
}

fn one(region: zx_iob_region_t) -> zx::Result<(Iob, Iob)> {
    Iob::create(&[region])
}

/// The VMAR in which this process maps regions.
fn root() -> &'static Vmar {
    static ROOT: std::sync::OnceLock<zx::Unowned<'static, Vmar>> = std::sync::OnceLock::new();
    ROOT.get_or_init(zx::startup::vmar_root_self)
}

fn map(iob: &Iob, region: u32, pages: usize) -> zx::Result<Mapping<'static>> {
    root().map_iob_here(RW, iob, region, pages * PAGE)
}

fn words<const N: usize>(map: &Mapping<'_>, offset: usize) -> zx::Result<[u32; N]> {
    let mut words = [0; N];
    for (index, word) in words.iter_mut().enumerate() {
        let mut bytes = [0; 4];
        map.read(offset + index * 4, &mut bytes)?;
        *word = u32::from_le_bytes(bytes);
    }
    Ok(words)
}

fn long(map: &Mapping<'_>, offset: usize) -> zx::Result<u64> {
    let [low, high] = words(map, offset)?;
    Ok(u64::from(low) | u64::from(high) << 32)
}

fn bytes(map: &Mapping<'_>, offset: usize, len: usize) -> zx::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    map.read(offset, &mut bytes)?;
    Ok(bytes)
}

fn create_sizes() -> Outcome {
    for (asked, size) in [(1, PAGE), (PAGE, PAGE), (PAGE + 1, 2 * PAGE)] {
        let (a, _b) = one(Iob::private_region(MAP_READ, asked as u64, IobDiscipline::None))?;
        let mut regions = [zx_iob_region_info_t::default()];
        a.regions(&mut regions)?;
        equal(regions[0].region.size, size as u64)?;
    }
    fails(one(Iob::private_region(MAP_READ, 0, IobDiscipline::None)), Status::INVALID_ARGS)?;
    fails(one(Iob::private_region(MAP_READ, u64::MAX, IobDiscipline::None)), Status::OUT_OF_RANGE)?;
    // A region can be larger than the memory, as long as it is not accessed.
    one(Iob::private_region(BOTH_MAP, 1 << 40, IobDiscipline::None))?;
    Ok(())
}

fn create_options() -> Outcome {
    let region = plain(BOTH_MAP, 1);
    let mut out = [0_u32; 2];
    let [a, b] = &mut out;
    for options in [1_u64, 1 << 63] {
        let status = raw!(zx_iob_create, options, &raw const region, 1, a as *mut u32, b as *mut u32);
        gives(status, Status::INVALID_ARGS)?;
    }
    equal(out, [0, 0])
}

fn create_number_of_regions() -> Outcome {
    fails(Iob::create(&[]), Status::INVALID_ARGS)?;
    fails(Iob::create(&[plain(MAP_READ, 1); 65]), Status::OUT_OF_RANGE)?;
    let (a, b) = Iob::create(&[plain(MAP_READ, 1); 64])?;
    let mut regions = [zx_iob_region_info_t::default(); 64];
    equal(a.regions(&mut regions)?.avail, 64)?;
    let koids: std::collections::BTreeSet<u64> = regions.iter().map(|region| region.koid).collect();
    equal(koids.len(), 64)?;
    equal(b.regions(&mut regions[..3])?, zx::InfoSize { actual: 3, avail: 64 })
}

fn create_access() -> Outcome {
    for access in [0, 1 << 8, 1 << 31, BOTH_MAP | 1 << 9] {
        fails(one(plain(access, 1)), Status::INVALID_ARGS)?;
    }
    // One invalid region is enough.
    fails(Iob::create(&[plain(BOTH_MAP, 1), plain(0, 1)]), Status::INVALID_ARGS)
}

fn create_types() -> Outcome {
    for type_ in [2, 77, u32::MAX] {
        fails(one(zx_iob_region_t { type_, ..plain(BOTH_MAP, 1) }), Status::INVALID_ARGS)?;
    }
    fails(one(zx_iob_region_t { extension: [1, 0, 0, 0], ..plain(BOTH_MAP, 1) }), Status::INVALID_ARGS)
}

fn create_disciplines() -> Outcome {
    let mut region = plain(BOTH_MAP, 1);
    for type_ in [3, 1 << 32, u64::MAX] {
        region.discipline.type_ = type_;
        fails(one(region), Status::INVALID_ARGS)?;
    }
    // Rings require shared regions, and shared regions require a ring.
    let ring = IobDiscipline::Ring { tag: 1 };
    fails(one(Iob::private_region(WRITE, 2 * PAGE as u64, ring)), Status::INVALID_ARGS)?;
    let shared = IobSharedRegion::create(2 * PAGE as u64)?;
    for discipline in [IobDiscipline::None, IobDiscipline::IdAllocator] {
        fails(one(Iob::shared_region(BOTH_MAP, &shared, discipline)), Status::INVALID_ARGS)?;
    }
    // The number of a ring's pages after the first one must be a power of two.
    for (pages, good) in [(1, false), (2, true), (3, true), (4, false), (5, true), (6, false), (9, true)] {
        let shared = IobSharedRegion::create((pages * PAGE) as u64)?;
        let made = one(Iob::shared_region(WRITE, &shared, ring));
        if good { made.map(|_| ())? } else { fails(made, Status::INVALID_ARGS)? }
    }
    // The size must be 0, so that the region has the VMO's size; the ring is read through a mapping; reserved words
    // must be zero.
    let good = Iob::shared_region(WRITE, &shared, ring);
    fails(one(zx_iob_region_t { size: 2 * PAGE as u64, ..good }), Status::INVALID_ARGS)?;
    fails(one(zx_iob_region_t { access: WRITE | 1 << 2, ..good }), Status::INVALID_ARGS)?;
    fails(one(zx_iob_region_t { extension: [good.extension[0] | 1, 0, 0, 0], ..good }), Status::INVALID_ARGS)?;
    fails(one(zx_iob_region_t { extension: [good.extension[0], 0, 0, 1], ..good }), Status::INVALID_ARGS)
}

fn create_rights() -> Outcome {
    let (a, b) = one(plain(BOTH_MAP, 1))?;
    for end in [&a, &b] {
        let basic = end.basic_info()?;
        equal(
            (basic.type_, Rights::from_bits_retain(basic.rights)),
            (abi::ZX_OBJ_TYPE_IOB, abi::ZX_DEFAULT_IOB_RIGHTS),
        )?;
    }
    let basic = IobSharedRegion::create(PAGE as u64)?.basic_info()?;
    equal(basic.type_, abi::ZX_OBJ_TYPE_IOB_SHARED_REGION)?;
    equal(Rights::from_bits_retain(basic.rights), abi::ZX_DEFAULT_IOB_SHARED_REGION_RIGHTS)
}

fn create_bad_address() -> Outcome {
    let region = plain(BOTH_MAP, 1);
    let mut out = 0_u32;
    for bad in [0, NOWHERE] {
        gives(raw!(zx_iob_create, 0, bad, 4, &raw mut out, &raw mut out), Status::INVALID_ARGS)?;
        gives(raw!(zx_iob_create, 0, &raw const region, 1, bad, &raw mut out), Status::INVALID_ARGS)?;
        gives(raw!(zx_iob_create, 0, &raw const region, 1, &raw mut out, bad), Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn create_related() -> Outcome {
    let (a, b) = one(plain(BOTH_MAP, 1))?;
    let (ia, ib) = (a.basic_info()?, b.basic_info()?);
    equal((ia.related_koid, ib.related_koid), (ib.koid, ia.koid))
}

fn shared_region_sizes() -> Outcome {
    let mut out = 0_u32;
    gives(raw!(zx_iob_create_shared_region, 1, PAGE, &raw mut out), Status::INVALID_ARGS)?;
    for size in [0, 1, PAGE as u64 - 1, PAGE as u64 + 8, u64::MAX] {
        fails(IobSharedRegion::create(size), Status::INVALID_ARGS)?;
    }
    fails(IobSharedRegion::create(u64::MAX - PAGE as u64 + 1), Status::OUT_OF_RANGE)?;
    IobSharedRegion::create(PAGE as u64)?;
    Ok(())
}

fn ring(access: u32, tag: u64, pages: usize) -> zx::Result<(Iob, Iob, IobSharedRegion)> {
    let shared = IobSharedRegion::create(((pages + 1) * PAGE) as u64)?;
    let (a, b) = one(Iob::shared_region(access, &shared, IobDiscipline::Ring { tag }))?;
    Ok((a, b, shared))
}

/// The usual rights of a ring: end 0 reads, end 1 writes.
const READER_WRITER: u32 = MAP_READ | MAP_WRITE | OTHER_WRITE;

fn shared_region_outlives() -> Outcome {
    let (a, b, shared) = ring(READER_WRITER, 5, 1)?;
    drop(shared);
    b.writev(0, [b"still there"])?;
    drop(b);
    let map = map(&a, 0, 2)?;
    equal(bytes(&map, PAGE + 16, 11)?, b"still there".to_vec())
}

fn shared_region_handle() -> Outcome {
    let (shared, event) = (IobSharedRegion::create(2 * PAGE as u64)?, Event::create()?);
    let good = Iob::shared_region(WRITE, &shared, IobDiscipline::Ring { tag: 0 });
    let with = |handle: u32| one(zx_iob_region_t { extension: [u64::from(handle) << 32, 0, 0, 0], ..good });
    fails(with(0), Status::BAD_HANDLE)?;
    fails(with(0xdead_beef), Status::BAD_HANDLE)?;
    fails(with(event.raw_handle()), Status::WRONG_TYPE)?;
    // The call does not consume the handle.
    with(shared.raw_handle())?;
    shared.basic_info()?;
    Ok(())
}

fn info_fields() -> Outcome {
    let (a, _b) = Iob::create(&[plain(MAP_READ, 1), plain(MAP_READ, 2)])?;
    let info: abi::zx_info_iob_t = a.info_record(abi::ZX_INFO_IOB)?;
    equal((info.options, info.region_count), (0, 2))?;
    let hidden = Iob::from(without(&a, Rights::INSPECT)?);
    fails(hidden.info_record::<abi::zx_info_iob_t>(abi::ZX_INFO_IOB), Status::ACCESS_DENIED)?;
    fails(hidden.regions(&mut []), Status::ACCESS_DENIED)?;
    fails(Event::create()?.info_record::<abi::zx_info_iob_t>(abi::ZX_INFO_IOB), Status::WRONG_TYPE)
}

fn info_regions_swap_ends() -> Outcome {
    let shared = IobSharedRegion::create(3 * PAGE as u64)?;
    let told = [
        plain(MAP_READ | MAP_WRITE | OTHER_MAP_READ, 3),
        Iob::private_region(MAP_READ | OTHER_WRITE, PAGE as u64, IobDiscipline::IdAllocator),
        Iob::shared_region(READER_WRITER, &shared, IobDiscipline::Ring { tag: 0x1234_5678_9abc }),
    ];
    let (a, b) = Iob::create(&told)?;
    let (mut of_a, mut of_b) = ([zx_iob_region_info_t::default(); 3], [zx_iob_region_info_t::default(); 3]);
    equal((a.regions(&mut of_a)?.actual, b.regions(&mut of_b)?.actual), (3, 3))?;
    for (index, asked) in told.iter().enumerate() {
        let (ra, rb) = (&of_a[index], &of_b[index]);
        equal(ra.region.access, asked.access)?;
        equal(rb.region.access, asked.access >> 4 | (asked.access & 0xf) << 4)?;
        equal((ra.region.type_, ra.koid), (rb.region.type_, rb.koid))?;
        equal((ra.region.type_, ra.region.discipline.type_), (asked.type_, asked.discipline.type_))?;
        ensure(ra.koid != 0, "a region's memory has no number")?;
    }
    equal(of_a.map(|region| region.region.size), [3, 1, 3].map(|pages| pages * PAGE as u64))?;
    equal(of_a[2].region.discipline.extension[0], 0x1234_5678_9abc)
}

/// The records of this process's memory that show an IOBuffer's region with this koid.
fn own_memory(koid: u64) -> Result<Vec<zx_info_vmo_t>, Failure> {
    let mut vmos = vec![zx_info_vmo_t::default(); 4000];
    let size = zx::startup::process_self().get_info_records(abi::ZX_INFO_PROCESS_VMOS, &mut vmos)?;
    vmos.truncate(size.actual);
    vmos.retain(|vmo| vmo.koid == koid);
    Ok(vmos)
}

fn info_memory_of_a_process() -> Outcome {
    let (a, b) = Iob::create(&[plain(BOTH_MAP, 1), plain(BOTH_MAP, 2)])?;
    let mut regions = [zx_iob_region_info_t::default(); 2];
    a.regions(&mut regions)?;
    a.set_name("region")?;
    let first = own_memory(regions[1].koid)?;
    // The region is listed once for each end.
    equal(first.len(), 2)?;
    ensure(first.iter().all(|vmo| vmo.flags & abi::ZX_INFO_VMO_VIA_IOB_HANDLE != 0), "it is told otherwise")?;
    ensure(first[0].name.starts_with(b"region\0") && first[0].size_bytes == 2 * PAGE as u64, "it is another")?;
    let map = map(&b, 1, 2)?;
    map.write(0, b"x")?;
    let all = own_memory(regions[1].koid)?;
    equal(all.len(), 3)?;
    ensure(all.iter().any(|vmo| vmo.flags & abi::ZX_INFO_VMO_VIA_MAPPING != 0), "the mapping is not told")?;
    equal(all[0].committed_bytes, PAGE as u64)?;
    drop((a, b));
    equal(own_memory(regions[1].koid)?.len(), 1)?;
    drop(map);
    equal(own_memory(regions[1].koid)?.len(), 0)
}

fn info_mapping() -> Outcome {
    let (a, _b) = one(plain(BOTH_MAP, 3))?;
    let mut regions = [zx_iob_region_info_t::default()];
    a.regions(&mut regions)?;
    let address = root().map_iob(RW, 0, &a, 0, (PAGE as u64, 2 * PAGE))?;
    let mut maps = vec![abi::zx_info_maps_t::default(); 4000];
    let size = zx::startup::process_self().get_info_records(abi::ZX_INFO_PROCESS_MAPS, &mut maps)?;
    root().unmap(address, 2 * PAGE)?;
    let found =
        maps[..size.actual].iter().find(|entry| entry.base == address && entry.type_ == abi::ZX_INFO_MAPS_TYPE_MAPPING);
    let found = found.ok_or("the mapping is not told")?;
    equal((found.size, found.mapping.vmo_koid, found.mapping.vmo_offset), (2 * PAGE, regions[0].koid, PAGE as u64))
}

fn name_is_shared() -> Outcome {
    let (a, b) = one(plain(BOTH_MAP, 1))?;
    a.set_name("both")?;
    ensure(b.get_name()?.starts_with(b"both\0"), "the other end has another name")?;
    b.set_name("new")?;
    ensure(a.get_name()?.starts_with(b"new\0"), "the first end kept its name")
}

fn signal_peer_closed() -> Outcome {
    let (a, b) = one(plain(BOTH_MAP, 1))?;
    equal((a.signals()?, b.signals()?), (Signals::NONE, Signals::NONE))?;
    let again = Iob::from(b.duplicate_handle(Rights::SAME_RIGHTS)?);
    drop(b);
    equal(a.signals()?, Signals::NONE)?;
    drop(again);
    equal(a.signals()?, Signals::IOB_PEER_CLOSED)?;
    fails(a.signal_peer(Signals::NONE, Signals::USER_0), Status::PEER_CLOSED)?;
    // The end still has its memory.
    map(&a, 0, 1)?.write(0, b"alone")?;
    equal(bytes(&map(&a, 0, 1)?, 0, 5)?, b"alone".to_vec())
}

fn signal_mapping_keeps() -> Outcome {
    let (a, b) = one(plain(BOTH_MAP, 2))?;
    let map = map(&b, 0, 2)?;
    drop(b);
    equal(a.signals()?, Signals::NONE)?;
    // A mapping that is cut in two still counts.
    root().protect(ZX_VM_PERM_READ, map.address(), PAGE)?;
    root().unmap(map.address(), PAGE)?;
    equal(a.signals()?, Signals::NONE)?;
    drop(map);
    equal(a.signals()?, Signals::IOB_PEER_CLOSED)
}

fn signal_each_mapping_counts() -> Outcome {
    let (a, b) = one(plain(BOTH_MAP, 1))?;
    let (first, own) = (map(&b, 0, 1)?, map(&a, 0, 1)?);
    let second = map(&b, 0, 1)?;
    drop(b);
    drop(first);
    // The mapping of one end does not keep the other end open.
    equal(a.signals()?, Signals::NONE)?;
    drop(second);
    equal(a.signals()?, Signals::IOB_PEER_CLOSED)?;
    own.write(0, b"on")?;
    // Failed mappings do not keep an end open.
    let (a, b) = one(plain(MAP_READ | OTHER_MAP_READ, 1))?;
    fails(map(&b, 0, 1), Status::ACCESS_DENIED)?;
    fails(root().map_iob(ZX_VM_PERM_READ, 0, &b, 0, (0, 2 * PAGE)), Status::BUFFER_TOO_SMALL)?;
    drop(b);
    equal(a.signals()?, Signals::IOB_PEER_CLOSED)
}

fn signal_user() -> Outcome {
    let (a, b) = one(plain(BOTH_MAP, 1))?;
    a.signal_peer(Signals::NONE, Signals::USER_3)?;
    b.signal(Signals::NONE, Signals::USER_1)?;
    equal((a.signals()?, b.signals()?), (Signals::NONE, Signals::USER_1 | Signals::USER_3))?;
    fails(a.signal(Signals::NONE, Signals::IOB_PEER_CLOSED), Status::INVALID_ARGS)
}

fn map_both_ends_see() -> Outcome {
    let (a, b) = one(plain(BOTH_MAP, 3))?;
    let (ma, mb) = (map(&a, 0, 3)?, map(&b, 0, 3)?);
    equal(bytes(&ma, 0, 3 * PAGE)?, vec![0; 3 * PAGE])?;
    ma.write(PAGE - 2, b"from a")?;
    equal(bytes(&mb, PAGE - 2, 6)?, b"from a".to_vec())?;
    mb.write(2 * PAGE + 7, b"from b")?;
    equal(bytes(&ma, 2 * PAGE + 7, 6)?, b"from b".to_vec())
}

fn map_each_region() -> Outcome {
    let (a, b) = Iob::create(&[plain(BOTH_MAP, 1), plain(BOTH_MAP, 1), plain(BOTH_MAP, 1)])?;
    for index in 0..3 {
        map(&a, index, 1)?.write(index as usize, &[index as u8 + 1])?;
    }
    for index in 0..3 {
        let mut expected = [0; 3];
        expected[index as usize] = index as u8 + 1;
        equal(bytes(&map(&b, index, 1)?, 0, 3)?, expected.to_vec())?;
    }
    fails(map(&a, 3, 1), Status::OUT_OF_RANGE)?;
    fails(map(&a, u32::MAX, 1), Status::OUT_OF_RANGE)
}

fn map_part() -> Outcome {
    let (a, b) = one(plain(BOTH_MAP, 4))?;
    let whole = map(&a, 0, 4)?;
    for page in 0..4 {
        whole.write(page * PAGE, &[page as u8 + 10])?;
    }
    let address = root().map_iob(ZX_VM_PERM_READ | abi::ZX_VM_MAP_RANGE, 0, &b, 0, (2 * PAGE as u64, PAGE))?;
    let mut byte = [0];
    zx::startup::process_self().read_memory(address, &mut byte)?;
    root().unmap(address, PAGE)?;
    equal(byte, [12])
}

fn map_access_of_each_end() -> Outcome {
    let all = [
        (MAP_READ | MAP_WRITE | OTHER_MAP_READ, [Status::OK, Status::ACCESS_DENIED], [Status::OK, Status::OK]),
        (MAP_READ, [Status::ACCESS_DENIED; 2], [Status::OK, Status::ACCESS_DENIED]),
        (OTHER_MAP_READ | OTHER_MAP_WRITE, [Status::ACCESS_DENIED, Status::OK], [Status::ACCESS_DENIED, Status::OK]),
        (WRITE | OTHER_WRITE, [Status::ACCESS_DENIED; 2], [Status::ACCESS_DENIED; 2]),
    ];
    for (access, to_write, to_read) in all {
        let (a, b) = one(plain(access, 1))?;
        for (index, end) in [&a, &b].into_iter().enumerate() {
            for (options, expected) in [(RW, to_write[index]), (ZX_VM_PERM_READ, to_read[index])] {
                let mapped = root().map_iob(options, 0, end, 0, (0, PAGE));
                if let Ok(address) = mapped {
                    root().unmap(address, PAGE)?;
                }
                equal((access, options, mapped.err().unwrap_or(Status::OK)), (access, options, expected))?;
            }
        }
    }
    Ok(())
}

fn map_rights_of_the_handle() -> Outcome {
    let (a, _b) = one(plain(BOTH_MAP, 1))?;
    let mute = Iob::from(without(&a, Rights::WRITE)?);
    fails(map(&mute, 0, 1), Status::ACCESS_DENIED)?;
    root().map_iob_here(ZX_VM_PERM_READ, &mute, 0, PAGE)?;
    let blind = Iob::from(without(&a, Rights::READ)?);
    fails(root().map_iob(ZX_VM_PERM_READ, 0, &blind, 0, (0, PAGE)), Status::ACCESS_DENIED)?;
    fails(map(&Iob::from(without(&a, Rights::MAP)?), 0, 1), Status::ACCESS_DENIED)
}

fn map_no_more_by_protect() -> Outcome {
    let (_a, b) = one(plain(MAP_READ | MAP_WRITE | OTHER_MAP_READ, 1))?;
    let map = root().map_iob_here(ZX_VM_PERM_READ, &b, 0, PAGE)?;
    fails(root().protect(RW, map.address(), PAGE), Status::ACCESS_DENIED)?;
    let (a, _b) = one(plain(BOTH_MAP, 1))?;
    let map = root().map_iob_here(ZX_VM_PERM_READ, &a, 0, PAGE)?;
    root().protect(RW, map.address(), PAGE)?;
    map.write(0, b"now")?;
    Ok(())
}

fn map_options() -> Outcome {
    let (a, _b) = one(plain(BOTH_MAP, 1))?;
    let bad = [
        abi::ZX_VM_PERM_EXECUTE,
        abi::ZX_VM_COMPACT,
        abi::ZX_VM_ALLOW_FAULTS,
        abi::ZX_VM_REQUIRE_NON_RESIZABLE,
        abi::ZX_VM_CAN_MAP_READ,
        abi::ZX_VM_SPECIFIC_OVERWRITE | abi::ZX_VM_MAP_RANGE,
        1 << 31,
    ];
    for options in bad {
        fails(root().map_iob(ZX_VM_PERM_READ | options, 0, &a, 0, (0, PAGE)), Status::INVALID_ARGS)?;
    }
    // An offset needs `ZX_VM_SPECIFIC`.
    fails(root().map_iob(ZX_VM_PERM_READ, PAGE, &a, 0, (0, PAGE)), Status::INVALID_ARGS)
}

fn map_bounds() -> Outcome {
    let (a, _b) = one(plain(BOTH_MAP, 2))?;
    let map = |offset, len| root().map_iob(ZX_VM_PERM_READ, 0, &a, 0, (offset, len));
    for (offset, len) in [(0, 0), (0, 1), (0, PAGE + 8), (1, PAGE), (8, PAGE)] {
        fails(map(offset, len), Status::INVALID_ARGS)?;
    }
    for (offset, len) in [(0, 3 * PAGE), (PAGE as u64, 2 * PAGE), (2 * PAGE as u64, PAGE), (1 << 40, PAGE)] {
        fails(map(offset, len), Status::BUFFER_TOO_SMALL)?;
    }
    fails(map(u64::MAX - PAGE as u64 + 1, PAGE), Status::OUT_OF_RANGE)
}

fn map_specific() -> Outcome {
    let (a, b) = one(plain(BOTH_MAP, 1))?;
    let can = abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_CAN_MAP_WRITE | abi::ZX_VM_CAN_MAP_SPECIFIC;
    let (region, base) = root().allocate(can, 0, 8 * PAGE)?;
    let at = |options, offset, end: &Iob| region.map_iob(RW | options, offset, end, 0, (0, PAGE));
    equal(at(abi::ZX_VM_SPECIFIC, 2 * PAGE, &a)?, base + 2 * PAGE)?;
    fails(at(abi::ZX_VM_SPECIFIC, 2 * PAGE, &a), Status::ALREADY_EXISTS)?;
    // It replaces the mapping of the other end, which is then unmapped.
    let again = Iob::from(b.duplicate_handle(Rights::SAME_RIGHTS)?);
    equal(at(abi::ZX_VM_SPECIFIC_OVERWRITE, 2 * PAGE, &again)?, base + 2 * PAGE)?;
    drop(a);
    equal(b.signals()?, Signals::IOB_PEER_CLOSED)?;
    let below = at(abi::ZX_VM_OFFSET_IS_UPPER_LIMIT, 2 * PAGE, &b)?;
    ensure((base..base + 2 * PAGE).contains(&below), "it lies above the limit")?;
    let narrow = root().allocate(abi::ZX_VM_CAN_MAP_READ, 0, PAGE)?.0;
    fails(narrow.map_iob(RW, 0, &b, 0, (0, PAGE)), Status::ACCESS_DENIED)?;
    narrow.destroy()?;
    region.destroy()?;
    fails(region.map_iob(RW, 0, &b, 0, (0, PAGE)), Status::BAD_STATE)
}

fn map_outlives_both_ends() -> Outcome {
    let (a, b) = one(plain(BOTH_MAP, 1))?;
    let (ma, mb) = (map(&a, 0, 1)?, map(&b, 0, 1)?);
    drop((a, b));
    ma.write(0, b"through")?;
    equal(bytes(&mb, 0, 7)?, b"through".to_vec())
}

/// An IOBuffer whose region 0 stores blobs: end 0 maps it, end 1 writes.
fn blobs(pages: usize) -> zx::Result<(Iob, Iob)> {
    let access = MAP_READ | MAP_WRITE | OTHER_WRITE;
    one(Iob::private_region(access, (pages * PAGE) as u64, IobDiscipline::IdAllocator))
}

fn id_numbers_in_order() -> Outcome {
    let (_a, b) = blobs(1)?;
    for expected in 0..10 {
        equal(b.allocate_id(0, b"some blob")?, expected)?;
    }
    equal(b.allocate_id(0, b"")?, 10)?;
    equal(b.allocate_id(0, b"next")?, 11)
}

fn id_layout() -> Outcome {
    let (a, b) = blobs(2)?;
    let map = map(&a, 0, 2)?;
    let end = 2 * PAGE as u32;
    equal(words(&map, 0)?, [0, end])?;
    b.allocate_id(0, b"first")?;
    b.allocate_id(0, b"and second")?;
    equal(words(&map, 0)?, [2, end - 15, 5, end - 5, 10, end - 15, 0])?;
    equal(bytes(&map, 2 * PAGE - 15, 15)?, b"and secondfirst".to_vec())?;
    // A blob that spans pages.
    let long: Vec<u8> = (0..5000_u32).map(|index| (index * 31) as u8).collect();
    equal(b.allocate_id(0, &long)?, 2)?;
    equal(words(&map, 0)?, [3, end - 5015])?;
    ensure(bytes(&map, 2 * PAGE - 5015, 5000)? == long, "the long blob is another")
}

fn id_full() -> Outcome {
    let (a, b) = blobs(1)?;
    fails(b.allocate_id(0, &[7; PAGE - 15]), Status::NO_MEMORY)?;
    fails(b.allocate_id(0, &[7; PAGE * 3]), Status::NO_MEMORY)?;
    // Exactly as much as there is room for.
    equal(b.allocate_id(0, &[7; PAGE - 40])?, 0)?;
    fails(b.allocate_id(0, &[8; 17]), Status::NO_MEMORY)?;
    equal(b.allocate_id(0, &[8; 16])?, 1)?;
    fails(b.allocate_id(0, b""), Status::NO_MEMORY)?;
    let map = map(&a, 0, 1)?;
    equal(words(&map, 0)?, [2, 24])?;
    equal(bytes(&map, 24, 17)?, [vec![8; 16], vec![7]].concat())
}

fn id_damaged() -> Outcome {
    let (a, b) = blobs(1)?;
    let map = map(&a, 0, 1)?;
    b.allocate_id(0, b"blob")?;
    // The server does not trust the region's own header.
    for (number, head) in [(1, PAGE as u32 + 1), (1, u32::MAX), (1000, PAGE as u32), (u32::MAX, 64), (1, 15), (5, 0)] {
        map.write(0, &number.to_le_bytes())?;
        map.write(4, &head.to_le_bytes())?;
        fails(b.allocate_id(0, b"blob"), Status::IO_DATA_INTEGRITY)?;
    }
    map.write(0, &[0; 4])?;
    map.write(4, &(PAGE as u32).to_le_bytes())?;
    equal(b.allocate_id(0, b"blob")?, 0)
}

fn id_access() -> Outcome {
    let (a, b) = Iob::create(&[
        Iob::private_region(BOTH_MAP | OTHER_WRITE, PAGE as u64, IobDiscipline::IdAllocator),
        plain(BOTH_MAP | WRITE | OTHER_WRITE, 1),
    ])?;
    fails(a.allocate_id(0, b"blob"), Status::ACCESS_DENIED)?;
    fails(Iob::from(without(&b, Rights::WRITE)?).allocate_id(0, b"blob"), Status::ACCESS_DENIED)?;
    fails(b.allocate_id(1, b"blob"), Status::WRONG_TYPE)?;
    fails(b.allocate_id(2, b"blob"), Status::OUT_OF_RANGE)?;
    fails(b.writev(0, [b"blob"]), Status::WRONG_TYPE)?;
    let mut id = 0_u32;
    let blob = b"blob";
    let status = raw!(zx_iob_allocate_id, b.raw_handle(), 1, 0, blob.as_ptr(), 4, &raw mut id);
    gives(status, Status::INVALID_ARGS)?;
    equal(b.allocate_id(0, blob)?, 0)
}

fn id_bad_blob() -> Outcome {
    let (a, b) = blobs(2)?;
    let mut id = 77_u32;
    for bad in [0, NOWHERE] {
        let status = raw!(zx_iob_allocate_id, b.raw_handle(), 0, 0, bad, 100, &raw mut id);
        gives(status, Status::INVALID_ARGS)?;
        gives(raw!(zx_iob_allocate_id, b.raw_handle(), 0, 0, b"blob".as_ptr(), 4, bad), Status::INVALID_ARGS)?;
    }
    equal(id, 77)?;
    equal(words(&map(&a, 0, 2)?, 0)?, [0, 2 * PAGE as u32])
}

/// The records of a ring between two counts: tag and bytes.
fn records(map: &Mapping<'_>, ring: usize, mut from: u64, to: u64) -> Result<Vec<(u64, Vec<u8>)>, Failure> {
    let mut records = Vec::new();
    while from < to {
        let place = |count: u64| PAGE + (count % ring as u64) as usize;
        let (tag, len) = (long(map, place(from))?, long(map, place(from + 8))?);
        let data: Result<Vec<u8>, Failure> =
            (0..len).map(|index| Ok(bytes(map, place(from + 16 + index), 1)?[0])).collect();
        records.push((tag, data?));
        from += 16 + len.next_multiple_of(8);
    }
    equal(from, to)?;
    Ok(records)
}

fn ring_records() -> Outcome {
    let (a, b, _shared) = ring(READER_WRITER, 0xfeed_0000_beef, 1)?;
    let map = map(&a, 0, 2)?;
    equal((long(&map, 0)?, long(&map, 8)?), (0, 0))?;
    b.writev(0, [b"one"])?;
    equal(long(&map, 0)?, 24)?;
    b.writev(0, [b"tw", b"", b"o and more"])?;
    b.writev(0, [])?;
    b.writev(0, [b"12345678"])?;
    let head = long(&map, 0)?;
    equal((head, long(&map, 8)?), (24 + 32 + 16 + 24, 0))?;
    let expected: [&[u8]; 4] = [b"one", b"two and more", b"", b"12345678"];
    let expected: Vec<_> = expected.iter().map(|data| (0xfeed_0000_beef, data.to_vec())).collect();
    equal(records(&map, PAGE, 0, head)?, expected)
}

fn ring_wraps() -> Outcome {
    let (a, b, _shared) = ring(READER_WRITER, 3, 1)?;
    let map = map(&a, 0, 2)?;
    let mut tail = 0;
    for turn in 0..100_u64 {
        let data: Vec<u8> = (0..100 + turn % 200).map(|index| (index + turn) as u8).collect();
        let (first, rest) = data.split_at(50);
        b.writev(0, [first, rest])?;
        let head = long(&map, 0)?;
        equal(records(&map, PAGE, tail, head)?, vec![(3, data)])?;
        tail = head;
        map.write(8, &tail.to_le_bytes())?;
    }
    ensure(tail > 3 * PAGE as u64, "it never came around")
}

fn ring_full() -> Outcome {
    let (a, b, _shared) = ring(READER_WRITER, 3, 2)?;
    let map = map(&a, 0, 3)?;
    let filler = vec![9; PAGE - 16];
    b.writev(0, [&filler])?;
    fails(b.writev(0, [&filler, &[1]]), Status::NO_SPACE)?;
    b.writev(0, [&filler])?;
    fails(b.writev(0, []), Status::NO_SPACE)?;
    equal(long(&map, 0)?, 2 * PAGE as u64)?;
    // The reader makes room.
    map.write(8, &(PAGE as u64).to_le_bytes())?;
    b.writev(0, [b"again"])?;
    equal(records(&map, 2 * PAGE, 2 * PAGE as u64, long(&map, 0)?)?, vec![(3, b"again".to_vec())])
}

fn ring_too_much() -> Outcome {
    let (_a, b, _shared) = ring(READER_WRITER, 3, 32)?;
    let much = vec![1; 65_535];
    b.writev(0, [&much])?;
    fails(b.writev(0, [&much, &[1]]), Status::INVALID_ARGS)?;
    fails(b.writev(0, [&vec![1; 70_000]]), Status::INVALID_ARGS)
}

fn ring_damaged() -> Outcome {
    let (a, b, _shared) = ring(READER_WRITER, 3, 1)?;
    let map = map(&a, 0, 2)?;
    for (head, tail) in [(0, 8_u64), (8, u64::MAX), (2 * PAGE as u64, 0), (4, 4), (u64::MAX - 7, u64::MAX - 7)] {
        map.write(0, &head.to_le_bytes())?;
        map.write(8, &tail.to_le_bytes())?;
        fails(b.writev(0, [b"record"]), Status::BAD_STATE)?;
    }
    let much = (1_u64 << 60) + 8;
    map.write(0, &much.to_le_bytes())?;
    map.write(8, &much.to_le_bytes())?;
    b.writev(0, [b"record"])?;
    equal(records(&map, PAGE, much, long(&map, 0)?)?, vec![(3, b"record".to_vec())])
}

fn ring_tags_of_several() -> Outcome {
    let shared = IobSharedRegion::create(2 * PAGE as u64)?;
    let make = |tag| one(Iob::shared_region(READER_WRITER, &shared, IobDiscipline::Ring { tag }));
    let (reader, first) = make(1)?;
    let (watcher, second) = make(2)?;
    first.writev(0, [b"a"])?;
    second.writev(0, [b"b"])?;
    first.writev(0, [b"c"])?;
    let map = map(&reader, 0, 2)?;
    let expected = [(1, b"a"), (2, b"b"), (1, b"c")].map(|(tag, data)| (tag, data.to_vec()));
    equal(records(&map, PAGE, 0, long(&map, 0)?)?, expected.to_vec())?;
    // The end of a writer is reported at its own IOBuffer.
    drop(second);
    equal((watcher.signals()?, reader.signals()?), (Signals::IOB_PEER_CLOSED, Signals::NONE))?;
    let (mut one, mut two) = ([zx_iob_region_info_t::default()], [zx_iob_region_info_t::default()]);
    reader.regions(&mut one)?;
    watcher.regions(&mut two)?;
    equal(one[0].koid, two[0].koid)
}

fn ring_strobes() -> Outcome {
    let (_a, b, shared) = ring(READER_WRITER, 3, 1)?;
    let port = Port::create()?;
    shared.wait_async(&port, 7, Signals::IOB_SHARED_REGION_UPDATED, 0)?;
    fails(port.wait(MonotonicInstant::ZERO), Status::TIMED_OUT)?;
    b.writev(0, [b"news"])?;
    equal(port.wait(late())?.key, 7)?;
    // The signal is only pulsed; it does not stay set.
    equal(shared.signals()?, Signals::NONE)?;
    shared.wait_async(&port, 8, Signals::IOB_SHARED_REGION_UPDATED, 0)?;
    fails(b.writev(0, [&[1; PAGE]]), Status::NO_SPACE)?;
    fails(port.wait(MonotonicInstant::ZERO), Status::TIMED_OUT)
}

fn ring_access() -> Outcome {
    let (a, b, _shared) = ring(READER_WRITER, 3, 1)?;
    fails(a.writev(0, [b"record"]), Status::ACCESS_DENIED)?;
    fails(Iob::from(without(&b, Rights::WRITE)?).writev(0, [b"record"]), Status::ACCESS_DENIED)?;
    fails(b.writev(1, [b"record"]), Status::OUT_OF_RANGE)?;
    fails(b.allocate_id(0, b"blob"), Status::WRONG_TYPE)?;
    fails(map(&b, 0, 2), Status::ACCESS_DENIED)?;
    let vector = zx_iovec_t { buffer: b"record".as_ptr() as usize, capacity: 6 };
    gives(raw!(zx_iob_writev, b.raw_handle(), 1, 0, &raw const vector, 1), Status::INVALID_ARGS)?;
    let (plain_end, _other) = one(plain(WRITE | MAP_READ, 1))?;
    fails(plain_end.writev(0, [b"record"]), Status::WRONG_TYPE)
}

fn ring_bad_buffer() -> Outcome {
    let (a, b, _shared) = ring(READER_WRITER, 3, 1)?;
    let good = zx_iovec_t { buffer: b"record".as_ptr() as usize, capacity: 6 };
    for bad in [0, NOWHERE] {
        let vectors = [good, zx_iovec_t { buffer: bad, capacity: 6 }];
        gives(raw!(zx_iob_writev, b.raw_handle(), 0, 0, vectors.as_ptr(), 2), Status::INVALID_ARGS)?;
        gives(raw!(zx_iob_writev, b.raw_handle(), 0, 0, bad, 1), Status::INVALID_ARGS)?;
    }
    // An incomplete record does not count.
    equal(long(&map(&a, 0, 2)?, 0)?, 0)
}
