//! Attacks on the memory file system: each case acts like a hostile client, and checks that others' files are still
//! there and their requests are answered.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod sockets;

#[cfg(target_os = "fuchsia")]
mod fuchsia {
    use std::fs;
    use std::io::Write;
    use std::process::ExitCode;
    use std::time::{Duration, Instant};

    use bootfs::{HEADER_SIZE, MAGIC};
    use conformance::Program;
    use conformance::check::{Case, Failure, Outcome, ensure, equal};
    use file_protocol::{Answer, Change, Error, Lock, Request, decode, encode, flags};
    use hostile::attack::{Attacker, BEGUN, ended, goes_on};

    use super::sockets;
    use zx::{AsHandleRef, Channel, Event, Handle, MonotonicInstant, Pager, Port, Rights, Status, Vmo};

    /// The service that gives a tree of one's own, and the tree that all share.
    const FRESH: &str = "tmp/fresh";
    pub const TMP: &str = "tmp";
    /// How long one answer may take.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn ask(channel: &Channel, transaction: u32, request: &Request<'_>, handle: Option<Handle>) -> Result<(), Status> {
        channel.write_handles(&encode(transaction, request, &[]).map_err(|_| Status::INTERNAL)?, handle)
    }

    fn answer(channel: &Channel) -> Result<Result<Answer, Error>, Status> {
        let mut bytes = file_protocol::buffer();
        let mut handles = [None, None];
        let size = channel.read_wait(&mut bytes, &mut handles, MonotonicInstant::after(PATIENCE.into()))?;
        let (answer, _) = decode::<Result<Answer, Error>>(&bytes[..size.bytes]).map_err(|_: Error| Status::IO)?;
        Ok(answer)
    }

    pub fn call(
        channel: &Channel,
        request: &Request<'_>,
        handle: Option<Handle>,
    ) -> Result<Result<Answer, Error>, Failure> {
        ask(channel, 7, request, handle)?;
        Ok(answer(channel)?)
    }

    /// Opens a file of a tree by hand.
    pub fn open(tree: &Channel, path: &str) -> Result<Channel, Failure> {
        let (ours, theirs) = Channel::create()?;
        let flags = flags::READ | flags::WRITE | flags::CREATE;
        let request = Request::Open { path: path.as_bytes(), flags, mode: 0o600 };
        match call(tree, &request, Some(theirs.into_handle()))? {
            Ok(Answer::Opened(_)) => Ok(ours),
            other => Err(format!("{path}: {other:?}").into()),
        }
    }

    pub fn write() -> std::io::Result<()> {
        fs::write("/tmp/neighbour", b"x")
    }

    /// A file from before an attack; it must be there afterwards.
    pub struct Before;

    impl Before {
        pub fn new() -> Result<Before, Failure> {
            fs::write("/tmp/kept", b"a neighbour's")?;
            Ok(Before)
        }

        pub fn is_there(&self) -> Outcome {
            equal(fs::read("/tmp/kept")?.as_slice(), b"a neighbour's".as_slice())?;
            write()?;
            equal(fs::read("/tmp/neighbour")?.as_slice(), b"x".as_slice())?;
            Ok(fs::remove_file("/tmp/neighbour")?)
        }
    }

    impl Drop for Before {
        fn drop(&mut self) {
            let _ = fs::remove_file("/tmp/kept");
            let _ = fs::remove_file("/tmp/neighbour");
        }
    }

    /// A client that does not read its answers: the service closes its connection.
    fn unread() -> Outcome {
        let before = Before::new()?;
        let tree = zx::startup::connect(TMP)?;
        let mut cut = false;
        for round in 0..20_000 {
            match ask(&tree, 7, &Request::Describe, None) {
                Ok(()) | Err(Status::SHOULD_WAIT) => {}
                Err(Status::PEER_CLOSED) => {
                    cut = true;
                    break;
                }
                Err(status) => return Err(status.into()),
            }
            if round % 20 == 0 {
                zx::nanosleep(MonotonicInstant::after(Duration::from_millis(2).into()))?;
            }
        }
        ensure(cut, "who reads no answers is served all the same")?;
        before.is_there()
    }

    /// Connections without end: each program may have only a limited number.
    fn clones() -> Outcome {
        let before = Before::new()?;
        let tree = zx::startup::connect(TMP)?;
        let (mut all, mut refused) = (Vec::new(), false);
        for _ in 0..60_000 {
            let (ours, theirs) = Channel::create()?;
            match call(&tree, &Request::Clone, Some(theirs.into_handle()))? {
                Ok(_) => all.push(ours),
                Err(error) => {
                    equal(error, Error::TooManyOpen)?;
                    refused = true;
                    break;
                }
            }
        }
        ensure(refused, "a program can have as many connections as it likes")?;
        // Each closed connection makes room for another.
        all.truncate(all.len() - 100);
        zx::nanosleep(MonotonicInstant::after(Duration::from_millis(100).into()))?;
        before.is_there()?;
        drop((all, tree));
        before.is_there()
    }

    /// Objects that are no channels are no clients, and no other way to an open file: a file without names ends with
    /// its last channel.
    fn events() -> Outcome {
        const SIZE: usize = 8 << 20;
        let before = Before::new()?;
        let tree = zx::startup::connect(TMP)?;
        for round in 0..8 {
            let name = format!("/tmp/large-{round}");
            let mut file = fs::File::create(&name)?;
            file.write_all(&vec![7; SIZE])?;
            let channel = open(&tree, &name["/tmp/".len()..])?;
            let event = Event::create()?.into_handle();
            equal(call(&channel, &Request::Clone, Some(event))?, Err(Error::Invalid))?;
            // Both ends of one channel are no client, either.
            let (one, other) = Channel::create()?;
            equal(call(&channel, &Request::Clone, Some(one.into_handle()))?, Ok(Answer::Done))?;
            equal(call(&channel, &Request::Clone, Some(other.into_handle()))?, Err(Error::Invalid))?;
            fs::remove_file(&name)?;
            drop((file, channel));
        }
        zx::startup::connect_with(TMP, Event::create()?.into_handle())?;
        zx::nanosleep(MonotonicInstant::after(Duration::from_millis(200).into()))?;
        // The service could not bear 40 times as much as one round sends.
        for round in 0..40 {
            fs::write(format!("/tmp/again-{round}"), vec![7; SIZE / 2]).map_err(|error| format!("{round}: {error}"))?;
        }
        for round in 0..40 {
            fs::remove_file(format!("/tmp/again-{round}"))?;
        }
        before.is_there()
    }

    /// An image, and a buffer to read into, whose pages a hostile pager would have to supply: the pager's VMO, a clone
    /// of it, and a clone of that.
    fn pager() -> Outcome {
        let before = Before::new()?;
        let (pager, port) = (Pager::create()?, Port::create()?);
        let size = 1 << 16;
        let vmo = pager.create_vmo(0, &port, 7, size)?;
        let copy = vmo.create_child(abi::ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE, 0, size)?;
        let second = copy.create_child(abi::ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE, 0, size)?;
        let slice = vmo.create_child(abi::ZX_VMO_CHILD_REFERENCE, 0, 0)?;
        for image in [vmo, copy, second, slice] {
            let tree = zx::startup::connect(FRESH)?;
            equal(call(&tree, &Request::Buffer, shared(&image)?)?, Err(Error::Invalid))?;
            equal(call(&tree, &Request::Fill { folder: b"" }, Some(image.into_handle()))?, Err(Error::Invalid))?;
            before.is_there()?;
        }
        let tree = zx::startup::connect(FRESH)?;
        for request in [Request::Fill { folder: b"" }, Request::Buffer] {
            let event = Event::create()?.into_handle();
            equal(call(&tree, &request, Some(event))?, Err(Error::Invalid))?;
        }
        before.is_there()
    }

    /// A buffer receives the bytes only if it is writable and long enough.
    fn buffer() -> Outcome {
        fs::write("/tmp/fetched", vec![7; 3 * 4096])?;
        let file = open(&zx::startup::connect(TMP)?, "fetched")?;
        let fetch = |offset| call(&file, &Request::Fetch { offset, len: u32::MAX }, None);
        equal(fetch(None)?, Err(Error::Invalid))?;
        let short = Vmo::create(2 * 4096, abi::ZX_VMO_RESIZABLE)?;
        equal(
            call(&file, &Request::Buffer, Some(short.duplicate_handle(Rights::INSPECT | Rights::TRANSFER)?))?,
            Err(Error::Invalid),
        )?;
        equal(call(&file, &Request::Buffer, shared(&short)?)?, Ok(Answer::Done))?;
        equal(fetch(None)?, Err(Error::Invalid))?;
        // The position has not moved.
        short.set_size(4 * 4096)?;
        equal(fetch(None)?, Ok(Answer::Count(3 * 4096)))?;
        equal(fetch(None)?, Ok(Answer::Count(0)))?;
        equal(fetch(Some(4096))?, Ok(Answer::Count(2 * 4096)))?;
        equal(fetch(Some(u64::MAX))?, Ok(Answer::Count(0)))?;
        let mut bytes = vec![0; 3 * 4096];
        short.read(&mut bytes, 0)?;
        equal(bytes, vec![7; 3 * 4096])?;
        Ok(fs::remove_file("/tmp/fetched")?)
    }

    /// An image with many names in the directory `d`: empty files, then perhaps an invalid name.
    fn image(count: u32, last: Option<&str>) -> Result<Vmo, Failure> {
        let mut directory = Vec::new();
        let names = (0..count).map(|number| format!("d/{:x}/{number:x}", number % 7));
        for name in names.chain(last.map(str::to_owned)) {
            let mut entry = Vec::new();
            for word in [name.len() as u32 + 1, 0, 8 << 20] {
                entry.extend_from_slice(&word.to_le_bytes());
            }
            entry.extend_from_slice(name.as_bytes());
            entry.push(0);
            entry.resize(entry.len().next_multiple_of(4), 0);
            directory.extend(entry);
        }
        let vmo = Vmo::create(16 << 20, 0)?;
        let mut header = [0; HEADER_SIZE];
        header[..4].copy_from_slice(&MAGIC.to_le_bytes());
        header[4..8].copy_from_slice(&(directory.len() as u32).to_le_bytes());
        vmo.write(&header, 0)?;
        vmo.write(&directory, HEADER_SIZE as u64)?;
        Ok(vmo)
    }

    fn shared(vmo: &Vmo) -> Result<Option<Handle>, Status> {
        vmo.duplicate_handle(Rights::SAME_RIGHTS).map(Some)
    }

    /// Fills trees with as many names as an image can have.
    fn fill_child() -> Outcome {
        let image = image(60_000, None)?;
        let trees: Vec<Channel> = (0..50).map(|_| zx::startup::connect(FRESH)).collect::<Result<_, _>>()?;
        for tree in &trees {
            ask(tree, 7, &Request::Fill { folder: b"d" }, shared(&image)?)?;
        }
        println!("{BEGUN}");
        zx::nanosleep(MonotonicInstant::INFINITE)?;
        Ok(())
    }

    fn fill() -> Outcome {
        let before = Before::new()?;
        let attacker = Attacker::start("fill")?;
        goes_on("a write beside trees that are filled", 40, write)?;
        drop(attacker);
        goes_on("a write while these end", 20, write)?;
        before.is_there()
    }

    /// An image with an error at its end leaves nothing behind.
    fn fill_undone() -> Outcome {
        let tree = zx::startup::connect(FRESH)?;
        let request = Request::Fill { folder: b"d" };
        for last in ["d/0/0", "d/0/0/x", "d/0//x"] {
            let came = call(&tree, &request, shared(&image(300, Some(last))?)?)?;
            ensure(came.is_err(), &format!("{last}: {came:?}"))?;
            let empty = call(&tree, &Request::Unlink { path: b"0", directory: true }, None)?;
            equal(empty, Err(Error::NotFound))?;
        }
        equal(call(&tree, &request, shared(&image(300, None)?)?)?, Ok(Answer::Done))?;
        equal(call(&tree, &Request::Unlink { path: b"0", directory: true }, None)?, Err(Error::NotEmpty))?;
        Ok(())
    }

    fn range(owner: u64, at: u64, wait: bool) -> Request<'static> {
        Request::LockRange { owner, lock: Lock::Exclusive, wait, start: 2 * at, end: 2 * at + 1 }
    }

    /// Many locked ranges in one file, many clients that wait for one of them, and many connections that ask for it.
    fn locks_child() -> Outcome {
        let tree = zx::startup::connect(TMP)?;
        let file = open(&tree, "locked")?;
        equal(call(&file, &range(1, 0, false), None)?, Ok(Answer::Done))?;
        for _ in 0..1000 / 50 {
            for _ in 0..50 {
                ask(&file, 9, &range(2, 0, true), None)?;
            }
            // A request that need not wait is answered after the requests before it.
            equal(call(&file, &Request::Sync, None)?, Ok(Answer::Done))?;
        }
        for at in 1..4090 {
            equal(call(&file, &range(1, at, false), None)?, Ok(Answer::Done))?;
        }
        equal(call(&file, &range(1, 0, false), None)?, Ok(Answer::Done))?;
        let others: Vec<Channel> = (0..500)
            .map(|_| {
                let (ours, theirs) = Channel::create()?;
                ask(&file, 0, &Request::Clone, Some(theirs.into_handle()))?;
                Ok(ours)
            })
            .collect::<Result<_, Status>>()?;
        for channel in &others {
            for _ in 0..20 {
                ask(channel, 0, &range(3, 0, false), None)?;
            }
        }
        println!("{BEGUN}");
        loop {
            for channel in &others {
                let _ = ask(channel, 0, &range(3, 0, false), None);
            }
            zx::nanosleep(MonotonicInstant::after(Duration::from_millis(20).into()))?;
        }
    }

    fn locks() -> Outcome {
        let before = Before::new()?;
        let attacker = Attacker::start("locks")?;
        goes_on("a write beside locks", 40, write)?;
        drop(attacker);
        goes_on("a write after their end", 20, write)?;
        fs::remove_file("/tmp/locked")?;
        before.is_there()
    }

    /// Requests that are queued in channels of open files are charged to the clients that have them open.
    fn unheard() -> Outcome {
        const COUNT: usize = 200;
        const BURST: usize = 20;
        let job = zx::startup::job_default().ok_or("no job")?;
        let used = || job.get_property_u64(abi::HAFNON_PROP_JOB_MEMORY_USED);
        let tree = zx::startup::connect(FRESH)?;
        let file = open(&tree, "file")?;
        let before = used()?;
        let message = encode(0, &Request::Write, &[0; 60_000]).map_err(|error| format!("{error:?}"))?;
        let mut most = 0;
        for _ in 0..COUNT / BURST {
            (0..BURST).try_for_each(|_| file.write(&message, []))?;
            most = most.max(used()?.saturating_sub(before));
        }
        ensure(most >= message.len() as u64, &format!("{most} bytes are charged for messages that wait"))
    }

    /// Of ten thousand files, the last thousand must take no more time than the first.
    fn ten_thousand() -> Outcome {
        fs::create_dir("/tmp/many")?;
        let make = |from: u32| -> Result<Duration, Failure> {
            let begin = Instant::now();
            for number in from..from + 1000 {
                fs::write(format!("/tmp/many/{number}"), b"")?;
            }
            Ok(begin.elapsed())
        };
        // Creates before the measurement what is created only once.
        make(0)?;
        let first = make(1000)?;
        for thousand in 2..9 {
            make(thousand * 1000)?;
        }
        let last = make(9000)?;
        fs::remove_dir_all("/tmp/many")?;
        eprintln!(
            "hold a thousand files: {} us, and {} us when there are nine thousand",
            first.as_micros(),
            last.as_micros()
        );
        ensure(last < first * 3 / 2, &format!("a thousand files took {first:?} at first, {last:?} at last"))
    }

    /// A program may close a tree of its own, but not the shared one.
    fn root() -> Outcome {
        let close = |tree: &Channel, mode: u32| {
            let change = Change { mode: Some(mode), accessed: None, modified: None };
            call(tree, &Request::SetAttributes { path: b"", follow: true, change }, None)
        };
        let tmp = zx::startup::connect(TMP)?;
        for mode in [0, 0o077, 0o300, 0o500, 0o600] {
            equal(close(&tmp, mode)?, Err(Error::NotPermitted))?;
        }
        equal(close(&tmp, 0o777)?, Ok(Answer::Done))?;
        write()?;
        let fresh = zx::startup::connect(FRESH)?;
        equal(close(&fresh, 0)?, Ok(Answer::Done))?;
        ensure(open(&fresh, "file").is_err(), "a tree that its owner has closed is open")
    }

    fn child(arguments: &[String]) -> ExitCode {
        let done = match arguments {
            [name] if name == "fill" => fill_child(),
            [name] if name == "locks" => locks_child(),
            [name] if name == "storm" => sockets::storm_child(),
            _ => return ExitCode::from(2),
        };
        ended(done)
    }

    pub fn main() -> ExitCode {
        let cases = || {
            vec![
                Case::new("files.buffer", buffer),
                Case::new("files.clones", clones),
                Case::new("files.events", events),
                Case::new("files.fill", fill),
                Case::new("files.fill_undone", fill_undone),
                Case::new("files.locks", locks),
                Case::new("files.pager", pager),
                Case::new("files.root", root),
                Case::new("files.sockets.bound", sockets::bound),
                Case::new("files.sockets.connections", sockets::connections),
                Case::new("files.sockets.queues", sockets::queues),
                Case::new("files.sockets.senders", sockets::senders),
                Case::new("files.sockets.storm", sockets::storm),
                Case::new("files.ten_thousand", ten_thousand),
                Case::new("files.unheard", unheard),
                Case::new("files.unread", unread),
            ]
        };
        Program { name: "files-attacks", cases, known: &[], child }.main()
    }
}

#[cfg(target_os = "fuchsia")]
fn main() -> std::process::ExitCode {
    fuchsia::main()
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("files-attacks: there is nothing to attack here");
}
