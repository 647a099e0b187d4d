//! Names for addresses: programs in the system can only report numbers; the debug information is on the host.
//!
//! `std` prints a panic's backtrace as markup ([`markup`]); the server prints the return addresses of a thread with an
//! unhandled exception ([`report`]). Both identify the images by build id. So it does not matter where they were
//! loaded, or that programs in the boot image have no debug information: the file with the same build id is looked up
//! in [`Files`].

pub mod markup;
pub mod report;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use addr2line::Loader;
use object::{Object, ObjectSegment};

use xtask_build::Built;
use xtask_build::cargo::PROGRAM_TARGET;
use xtask_common::paths::Paths;

/// Files in which names may be found, those with debug information before those without.
#[derive(Clone, Debug, Default)]
pub struct Files {
    images: Vec<PathBuf>,
    server: Option<PathBuf>,
    /// The native components' programs, by the names that the system description gives them.
    pub components: Vec<(String, PathBuf)>,
}

/// Stands for a build id of the server, which has none.
pub const SERVER: &str = "server";

/// Stands for the build id of a component's program.
fn component(name: &str) -> String {
    format!("component {name}")
}

impl Files {
    /// The files of a build, and additional programs that the user built.
    pub fn new(paths: &Paths, built: &Built, others: &[PathBuf]) -> Files {
        let originals = paths.cargo_target().join(PROGRAM_TARGET).join("release");
        let programs = || built.programs.iter().chain(&built.test_programs);
        let mut all = others.to_vec();
        all.extend(programs().map(|(name, _)| originals.join(name)));
        all.extend(built.libraries.iter().map(|(_, file)| file.clone()));
        all.push(paths.out.join("vdso/libzircon.so"));
        all.push(paths.out.join("userboot/userboot"));
        all.extend(programs().map(|(_, file)| file.clone()));
        Files { images: all, server: Some(built.server.clone()), components: Vec::new() }
    }

    /// The existing files by build id; of several with the same id, the first.
    pub fn by_build_id(&self) -> BTreeMap<String, PathBuf> {
        // Later entries override earlier ones, so the order is reversed: the first file of an id wins.
        let images = self.images.iter().rev().filter_map(|file| Some((build_id(file)?, file.clone())));
        let components = self.components.iter().map(|(name, file)| (component(name), file.clone()));
        images.chain(components).chain(self.server.clone().map(|server| (SERVER.into(), server))).collect()
    }
}

/// The names for an address in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The function's name.
    pub function: String,
    /// File and line, and the column if it is known.
    pub line: Option<(String, u32, Option<u32>)>,
}

/// An image whose names can be looked up.
struct Image {
    loader: Loader,
    /// End of its last segment.
    end: u64,
}

/// Looks up names; opens files on demand.
pub struct Symbols {
    files: Files,
    /// The files by build id, once they were needed.
    by_id: Option<BTreeMap<String, PathBuf>>,
    images: BTreeMap<String, Option<Rc<Image>>>,
}

impl Symbols {
    /// From these files.
    pub fn new(files: Files) -> Symbols {
        Symbols { files, by_id: None, images: BTreeMap::new() }
    }

    /// The functions at an address of the image with this build id: the innermost one first, then those that it is
    /// inlined into. Empty if unknown.
    pub fn find(&mut self, id: &str, address: u64) -> Vec<Place> {
        let Some(image) = self.image(id) else { return Vec::new() };
        if address >= image.end {
            return Vec::new();
        }
        let mut found = Vec::new();
        if let Ok(mut frames) = image.loader.find_frames(address) {
            while let Ok(Some(frame)) = frames.next() {
                let Some(name) = frame.function.as_ref().and_then(|name| Some(name.demangle().ok()?.into_owned()))
                else {
                    continue;
                };
                let line = frame.location.and_then(|at| Some((at.file?.to_string(), at.line?, at.column)));
                found.push(Place { function: plain(&name), line });
            }
        }
        if found.is_empty()
            && let Some(name) = image.loader.find_symbol(address)
        {
            found.push(Place { function: plain(&addr2line::demangle_auto(name.into(), None)), line: None });
        }
        found
    }

    fn image(&mut self, id: &str) -> Option<Rc<Image>> {
        if let Some(known) = self.images.get(id) {
            return known.clone();
        }
        let by_id = self.by_id.get_or_insert_with(|| self.files.by_build_id());
        // Unknown ids are not cached: programs can name any number of them.
        let file = by_id.get(id)?;
        let image = end_of(file).and_then(|end| Some(Rc::new(Image { loader: Loader::new(file).ok()?, end })));
        self.images.insert(id.to_string(), image.clone());
        image
    }
}

/// The build id of an ELF file, in hexadecimal digits.
fn build_id(file: &Path) -> Option<String> {
    let bytes = fs::read(file).ok()?;
    let id = object::File::parse(&*bytes).ok()?.build_id().ok()??.to_vec();
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn end_of(file: &Path) -> Option<u64> {
    let bytes = fs::read(file).ok()?;
    let parsed = object::File::parse(&*bytes).ok()?;
    parsed.segments().map(|segment| segment.address().saturating_add(segment.size())).max()
}

/// A demangled name without the hash at its end, as `std` shows it.
fn plain(name: &str) -> String {
    let hash =
        name.rsplit_once("::h").filter(|(_, hash)| hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()));
    hash.map_or(name, |(name, _)| name).to_string()
}

/// The lines of a frame, in the layout that `std` uses on other systems.
pub fn frame(number: &str, places: &[Place]) -> String {
    let mut text = String::new();
    for (n, place) in places.iter().enumerate() {
        let number = if n == 0 { format!("{number:>4}: ") } else { " ".repeat(6) };
        text.push_str(&format!("{number}{}\n", place.function));
        if let Some((file, line, column)) = &place.line {
            let column = column.map_or(String::new(), |column| format!(":{column}"));
            text.push_str(&format!("             at {}:{line}{column}\n", short(file)));
        }
    }
    text
}

/// A file as the user of this tool would name it.
fn short(file: &str) -> String {
    let here = env::current_dir().unwrap_or_default();
    Path::new(file).strip_prefix(&here).map_or(file.to_string(), |inside| format!("./{}", inside.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_hash() {
        assert_eq!(plain("core::panicking::panic_fmt::h0123456789abcdef"), "core::panicking::panic_fmt");
        assert_eq!(plain("a::hello"), "a::hello");
        assert_eq!(plain("memcpy"), "memcpy");
    }

    #[test]
    fn no_address_is_too_large() {
        let program = env::current_exe().unwrap();
        let id = build_id(&program);
        let files = Files { components: vec![("own".into(), program.clone())], images: vec![program], server: None };
        let mut symbols = Symbols::new(files);
        for id in [id, Some(component("own")), Some("no such".into())].into_iter().flatten() {
            for address in [0, 1, 0x1000, i64::MAX as u64, 1 << 63, u64::MAX - 1, u64::MAX] {
                let _ = symbols.find(&id, address);
            }
        }
        assert!(!symbols.images.contains_key("no such"));
    }

    #[test]
    fn layout() {
        let place = |function: &str, line| Place { function: function.into(), line };
        let places = [place("inner", Some(("/elsewhere/a.rs".into(), 3, Some(9)))), place("outer", None)];
        assert_eq!(frame("7", &places), "   7: inner\n             at /elsewhere/a.rs:3:9\n      outer\n");
    }
}
