//! The command that Linux runs: an archive with a shell script, which follows the initial file system (`guests/linux/init`
//! runs it).

use std::io::{self, Write};

use cpio::newc::{Builder, ModeFileType, trailer};

/// The file that init runs.
const FILE: &str = "command";

/// Adds a command to an initial file system. Linux unpacks all archives that follow each other.
///
/// # Errors
/// The command is too long.
pub fn add(initrd: &mut Vec<u8>, command: &[String]) -> io::Result<()> {
    let script = script(command);
    let len = u32::try_from(script.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
    initrd.resize(initrd.len().next_multiple_of(4), 0);
    let entry = Builder::new(FILE).ino(1).nlink(1).mode(0o644).set_mode_file_type(ModeFileType::Regular);
    let mut entry = entry.write(&mut *initrd, len);
    entry.write_all(script.as_bytes())?;
    trailer(entry.finish()?)?;
    Ok(())
}

/// A shell script that becomes a command.
fn script(command: &[String]) -> String {
    let words = command.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''")));
    format!("exec $enter {}\n", words.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_command_is_passed_word_by_word() {
        let words = ["sh", "-c", "echo \"it's $1\"; exit 5"].map(String::from);
        let output = std::process::Command::new("sh").args(["-c", &script(&words)]).output().expect("a shell");
        assert_eq!((output.stdout.as_slice(), output.status.code()), (&b"it's \n"[..], Some(5)));
    }

    #[test]
    fn the_archive_begins_at_a_word() {
        let mut initrd = b"first".to_vec();
        add(&mut initrd, &["true".into()]).expect("an archive");
        let mut entry = cpio::newc::Reader::new(&initrd[8..]).expect("an entry");
        assert_eq!((entry.entry().name(), entry.entry().mode()), (FILE, 0o100_644));
        let mut script = String::new();
        entry.read_to_string(&mut script).expect("text");
        assert_eq!(script, "exec $enter 'true'\n");
    }
}
