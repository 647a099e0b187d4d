//! The dynamic linker's interface for C programs: `dl_iterate_phdr`, `dladdr`, `dlopen` and related functions.

use super::elf::ProgramHeader;
use super::link::{self, MODULES, Module};
use super::symbols::{self, Name};
use crate::lock::Lock;
use alloc::string::String;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{null, null_mut};

/// Information of `dl_iterate_phdr` about a module.
#[repr(C)]
pub struct ModuleInfo {
    bias: usize,
    name: *const c_char,
    headers: *const ProgramHeader,
    count: u16,
    /// Number of modules ever added and removed. Unwinders keep their caches while these do not change.
    adds: u64,
    subs: u64,
    tls_module: usize,
    tls_data: *mut c_void,
}

fn info(module: &Module, index: usize, adds: u64) -> ModuleInfo {
    let (headers, count) = module.mapped.headers;
    let tls_data = module.tls_offset.map_or(0, |offset| crate::thread::pointer() - offset);
    ModuleInfo {
        bias: module.mapped.image.bias(),
        name: if index == 0 { c"".as_ptr() } else { module.name.as_ptr().cast() },
        headers: headers as *const ProgramHeader,
        count: count as u16,
        adds,
        subs: 0,
        tls_module: if module.tls_offset.is_some() { index + 1 } else { 0 },
        tls_data: tls_data as *mut c_void,
    }
}

type Visit = unsafe extern "C" fn(*mut ModuleInfo, usize, *mut c_void) -> c_int;

/// Calls `visit` for each module until it returns a value other than 0. The program comes first, with an empty name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_iterate_phdr(visit: Visit, data: *mut c_void) -> c_int {
    let mut index = 0;
    loop {
        // The list is not locked while the program's code runs.
        let next = {
            let modules = MODULES.lock();
            modules.list.get(index).map(|module| info(module, index, modules.added))
        };
        let Some(mut info) = next else { return 0 };
        // SAFETY: the caller's function and data.
        let result = unsafe { visit(&mut info, size_of::<ModuleInfo>(), data) };
        if result != 0 {
            return result;
        }
        index += 1;
    }
}

/// Result of `dladdr`.
#[repr(C)]
pub struct AddressInfo {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    address: *mut c_void,
}

/// Finds the module of an address, and the nearest exported symbol below the address. Returns 0 if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dladdr(address: *const c_void, out: *mut AddressInfo) -> c_int {
    let modules = MODULES.lock();
    let found = modules.list.iter().find(|module| module.mapped.image.contains(address as usize));
    let Some(module) = found else { return 0 };
    let image = &module.mapped.image;
    let vaddr = (address as usize).wrapping_sub(image.bias());
    let symbol = symbols::nearest(image, &module.dynamic, vaddr)
        .and_then(|symbol| Some((module.dynamic.search.string(symbol.name as usize)?, symbol.value as usize)));
    let (name, place) = match symbol {
        Some((name, value)) => (name.as_ptr().cast(), image.bias().wrapping_add(value) as *mut c_void),
        None => (null(), null_mut()),
    };
    let info = AddressInfo {
        file: module.name.as_ptr().cast(),
        base: module.mapped.base as *mut c_void,
        symbol: name,
        address: place,
    };
    // SAFETY: `out` points to the caller's structure.
    unsafe { out.write(info) };
    1
}

/// Why the last `dl*` call failed, until `dlerror` is called; one for all threads.
static ERROR: Lock<Option<String>> = Lock::new(None);
/// The string that `dlerror` returned last: valid until the next call.
static GIVEN: Lock<String> = Lock::new(String::new());

fn failed(mut why: String) -> *mut c_void {
    why.push('\0');
    *ERROR.lock() = Some(why);
    null_mut()
}

/// The reason of the last failure; null if there was none since the last call.
#[unsafe(no_mangle)]
pub extern "C" fn dlerror() -> *mut c_char {
    match ERROR.lock().take() {
        Some(why) => {
            let mut given = GIVEN.lock();
            *given = why;
            given.as_mut_ptr().cast()
        }
        None => null_mut(),
    }
}

const LAZY: c_int = 1;
const NOW: c_int = 2;
const NOLOAD: c_int = 4;
const GLOBAL: c_int = 0x100;
/// No library is ever unloaded.
const NODELETE: c_int = 0x1000;

/// A handle is a module's index + 1; the program's is 1.
fn handle(index: usize) -> *mut c_void {
    (index + 1) as *mut c_void
}

/// Loads a library (null: returns the program). All modules loaded later see its symbols, regardless of the mode.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlopen(name: *const c_char, mode: c_int) -> *mut c_void {
    if mode & !(LAZY | NOW | NOLOAD | GLOBAL | NODELETE) != 0 || mode & (LAZY | NOW) == 0 {
        return failed(String::from("invalid mode"));
    }
    if name.is_null() {
        return handle(0);
    }
    // SAFETY: a C string by contract.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let result = {
        let mut modules = MODULES.lock();
        match link::index_of(&modules, name) {
            Some(index) => Ok(index),
            None if mode & NOLOAD != 0 => Err(String::from("library is not loaded")),
            None => link::load_library(&mut modules, name),
        }
    };
    match result {
        Ok(index) => {
            link::initialise();
            handle(index)
        }
        Err(why) => failed(why),
    }
}

/// Libraries stay loaded until the process ends.
#[unsafe(no_mangle)]
pub extern "C" fn dlclose(_handle: *mut c_void) -> c_int {
    0
}

/// The address of a symbol: in the module `library` and the modules it needs, or (null) in the first module that has
/// it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: a C string by contract.
    let text = unsafe { CStr::from_ptr(name) };
    let name = Name::new(text.to_bytes());
    let modules = MODULES.lock();
    let found = match (library as usize).checked_sub(1).filter(|&index| index != 0) {
        None => link::find_in(&modules, &name),
        Some(index) if index < modules.list.len() => {
            // The module, then the modules that it needs, breadth first.
            let mut order = alloc::vec![index];
            let mut at = 0;
            loop {
                let Some(&next) = order.get(at) else { break None };
                let module = &modules.list[next];
                if let Some(symbol) = symbols::find(&module.mapped.image, &module.dynamic, &name) {
                    break Some((next, symbol));
                }
                for &need in &module.needs {
                    if !order.contains(&need) {
                        order.push(need);
                    }
                }
                at += 1;
            }
        }
        Some(_) => return failed(String::from("not a library handle")),
    };
    match found {
        Some((index, symbol)) if symbol.is_tls() => {
            let offset = modules.list[index].tls_offset.unwrap_or(0);
            (crate::thread::pointer() - offset + symbol.value as usize) as *mut c_void
        }
        Some((index, symbol)) => link::address(&modules, index, &symbol) as *mut c_void,
        None => failed(alloc::format!("symbol {} not found", text.to_str().unwrap_or("?"))),
    }
}
