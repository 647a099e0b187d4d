//! Many files, full file systems, files that other processes use.
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use files::Scratch;

/// Number of files that a program opens at the same time.
const MANY: usize = 10_000;

#[test]
fn ten_thousand_open_files() {
    let dir = Scratch::new();
    let mut open = Vec::with_capacity(MANY);
    for index in 0..MANY {
        match File::options().read(true).write(true).create_new(true).open(dir.join(index.to_string())) {
            Ok(mut file) => {
                file.write_all(&index.to_le_bytes()).unwrap();
                open.push(file);
            }
            // A host may allow fewer, and returns this error.
            Err(error) if cfg!(not(target_os = "fuchsia")) && error.raw_os_error() == Some(24) => break,
            Err(error) => panic!("file {index}: {error}"),
        }
    }
    assert!(open.len() == MANY || cfg!(not(target_os = "fuchsia")));
    for (index, file) in open.iter().enumerate() {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(usize::from_le_bytes(bytes), index);
    }
    let count = open.len();
    assert_eq!(fs::read_dir(dir.path()).map_or(count, |names| names.map(Result::unwrap).count()), count);
    drop(open);
    assert_eq!(fs::read(dir.join("17")).unwrap(), 17_usize.to_le_bytes());
}

/// Runs only where the file system may be filled without disturbing other work.
#[test]
#[cfg(target_os = "fuchsia")]
fn a_full_file_system_loses_nothing_and_works_again() {
    let dir = Scratch::new();
    fs::write(dir.join("kept"), vec![7; 100_000]).unwrap();
    let mut big = File::create(dir.join("big")).unwrap();
    let piece = vec![1; 1 << 20];
    let mut written = 0_u64;
    let error = loop {
        match big.write(&piece) {
            Ok(count) => written += count as u64,
            Err(error) => break error,
        }
        assert!(written < 1 << 34, "it has no end");
    };
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!(big.metadata().unwrap().len(), written);
    // Others cannot write either; existing content can be read.
    let other = fs::write(dir.join("other"), vec![2; 1 << 20]);
    assert_eq!(other.unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(fs::read(dir.join("kept")).unwrap(), vec![7; 100_000]);
    let mut tail = [0; 100];
    File::open(dir.join("big")).unwrap().read_exact_at(&mut tail, written - 100).unwrap();
    assert_eq!(tail, [1; 100]);
    // Truncation frees room, and so does the removal of a file's last name together with its last descriptor.
    big.set_len(1 << 20).unwrap();
    fs::write(dir.join("other"), vec![2; 1 << 20]).unwrap();
    big.seek(SeekFrom::End(0)).unwrap();
    big.write_all(&piece).unwrap();
    drop(big);
    fs::remove_file(dir.join("big")).unwrap();
    fs::write(dir.join("third"), vec![3; 8 << 20]).unwrap();
    assert_eq!(fs::read(dir.join("third")).unwrap(), vec![3; 8 << 20]);
}

#[test]
fn sparse_files() {
    let dir = Scratch::new();
    let file = File::options().read(true).write(true).create_new(true).open(dir.join("f")).unwrap();
    file.set_len(1 << 33).unwrap();
    file.write_all_at(b"end", (1 << 33) - 3).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1 << 33);
    let mut bytes = [1; 6];
    file.read_exact_at(&mut bytes, (1 << 33) - 6).unwrap();
    assert_eq!(&bytes, b"\0\0\0end");
    file.set_len(2).unwrap();
    file.set_len(10).unwrap();
    let mut all = Vec::new();
    File::open(dir.join("f")).unwrap().read_to_end(&mut all).unwrap();
    assert_eq!(all, [0; 10]);
}

#[test]
fn shrinking_zeroes_what_comes_back() {
    let dir = Scratch::new();
    fs::write(dir.join("f"), [5; 10_000]).unwrap();
    let file = File::options().read(true).write(true).open(dir.join("f")).unwrap();
    file.set_len(100).unwrap();
    file.set_len(10_000).unwrap();
    let all = fs::read(dir.join("f")).unwrap();
    assert!(all[..100].iter().all(|byte| *byte == 5) && all[100..].iter().all(|byte| *byte == 0));
}

#[test]
fn appending_from_several_threads() {
    let dir = Scratch::new();
    let path = dir.join("log");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
                for line in 0..200 {
                    file.write_all(format!("{thread} {line:05}\n").as_bytes()).unwrap();
                }
            });
        }
    });
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 800);
    for thread in 0..4 {
        let lines = text.lines().filter(|line| line.starts_with(&format!("{thread} ")));
        let expected: Vec<String> = (0..200).map(|line| format!("{thread} {line:05}")).collect();
        assert_eq!(lines.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn positions_are_shared_by_duplicates_only() {
    let dir = Scratch::new();
    fs::write(dir.join("f"), "abcdef").unwrap();
    let mut one = File::open(dir.join("f")).unwrap();
    let mut two = one.try_clone().unwrap();
    let mut three = File::open(dir.join("f")).unwrap();
    let mut bytes = [0; 2];
    one.read_exact(&mut bytes).unwrap();
    two.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"cd");
    three.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"ab");
    assert_eq!(one.seek(SeekFrom::End(-1)).unwrap(), 5);
    assert_eq!(two.stream_position().unwrap(), 5);
    assert_eq!(one.seek(SeekFrom::Start(100)).unwrap(), 100);
    assert_eq!(two.read(&mut bytes).unwrap(), 0);
    assert!(one.seek(SeekFrom::Current(-101)).is_err());
}

#[test]
fn locks() {
    let dir = Scratch::new();
    fs::write(dir.join("f"), "").unwrap();
    let open = || File::options().read(true).write(true).open(dir.join("f")).unwrap();
    let (one, two, three) = (open(), open(), open());
    one.lock_shared().unwrap();
    two.lock_shared().unwrap();
    assert!(matches!(three.try_lock(), Err(fs::TryLockError::WouldBlock)));
    one.unlock().unwrap();
    drop(two);
    three.lock().unwrap();
    assert!(matches!(one.try_lock_shared(), Err(fs::TryLockError::WouldBlock)));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| one.lock());
        std::thread::sleep(std::time::Duration::from_millis(20));
        three.unlock().unwrap();
        waiting.join().unwrap().unwrap();
    });
}

/// The variable that tells a test of this program, started by another one, its task.
const TASK: &str = "FILES_TASK";

fn child(task: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "as_a_child", "--nocapture", "--test-threads=1"]).env(TASK, task);
    command
}

/// The child process of the tests below.
#[test]
fn as_a_child() {
    let Ok(task) = std::env::var(TASK) else { return };
    let (task, path) = task.split_once(' ').unwrap();
    let mut file = File::options().read(true).append(true).open(path).unwrap();
    match task {
        "append" => (0..500).for_each(|_| file.write_all(b"child\n").unwrap()),
        "stdin" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).unwrap();
            file.write_all(text.to_uppercase().as_bytes()).unwrap();
        }
        "hold" => {
            file.lock().unwrap();
            file.write_all(b"held\n").unwrap();
            std::thread::sleep(std::time::Duration::from_secs(600));
        }
        _ => panic!("{task}?"),
    }
}

#[test]
fn two_processes_on_one_file() {
    let dir = Scratch::new();
    let path = dir.join("f");
    let mut file = OpenOptions::new().append(true).create(true).open(&path).unwrap();
    let task = format!("append {}", path.display());
    let mut started = child(&task).stdout(Stdio::null()).spawn().unwrap();
    (0..500).for_each(|_| file.write_all(b"parent\n").unwrap());
    assert!(started.wait().unwrap().success());
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().filter(|line| *line == "parent").count(), 500);
    assert_eq!(text.lines().filter(|line| *line == "child").count(), 500);
}

#[test]
fn a_file_as_standard_input() {
    let dir = Scratch::new();
    fs::write(dir.join("in"), "__hello").unwrap();
    fs::write(dir.join("out"), "").unwrap();
    let mut input = File::open(dir.join("in")).unwrap();
    // The child continues at this process's position.
    input.seek(SeekFrom::Start(2)).unwrap();
    let task = format!("stdin {}", dir.join("out").display());
    let status = child(&task).stdin(input).stdout(File::create(dir.join("log")).unwrap()).status().unwrap();
    assert!(status.success());
    assert_eq!(fs::read_to_string(dir.join("out")).unwrap(), "HELLO");
    assert!(fs::read_to_string(dir.join("log")).unwrap().contains("1 passed"));
}

#[test]
fn a_client_that_is_killed_leaves_nothing_locked() {
    let dir = Scratch::new();
    let path = dir.join("f");
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    let mut started = child(&format!("hold {}", path.display())).stdout(Stdio::null()).spawn().unwrap();
    while fs::read(&path).unwrap() != b"held\n" {
        std::thread::yield_now();
    }
    assert!(file.try_lock().is_err());
    started.kill().unwrap();
    started.wait().unwrap();
    // The child's end may become visible a moment later.
    file.lock().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"held\n");
}

#[test]
fn a_program_from_a_file() {
    use std::os::unix::fs::PermissionsExt;
    let dir = Scratch::new();
    let path = dir.join("program");
    fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(&path).args(["--exact", "sparse_files"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(Command::new(&path).status().is_err());
}

#[test]
fn the_working_directory() {
    // The only test here that changes the working directory; the paths of the others are absolute.
    let dir = Scratch::new();
    let real = fs::canonicalize(dir.path()).unwrap();
    let before = std::env::current_dir().unwrap();
    std::env::set_current_dir(dir.path()).unwrap();
    assert_eq!(std::env::current_dir().unwrap(), real);
    fs::write("here", "x").unwrap();
    assert_eq!(
        fs::read_to_string("./../".to_owned() + real.file_name().unwrap().to_str().unwrap() + "/here").unwrap(),
        "x"
    );
    std::env::set_current_dir(&before).unwrap();
    assert!(real.join("here").exists());
    assert_eq!(std::env::set_current_dir(real.join("here")).unwrap_err().kind(), ErrorKind::NotADirectory);
}
