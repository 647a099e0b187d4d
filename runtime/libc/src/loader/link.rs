//! The list of modules in this process, and the steps from a program's file to a bound program.
//!
//! Modules are in the order in which they were found, breadth first from the program: the program, the libraries that
//! it needs, the libraries that those need. Symbols are searched in the same order. The vDSO and this library are
//! mapped before anything is loaded; they join the list when a module needs them by name, or at the end.

use super::elf::{Dynamic, Symbol};
use super::map::{self, Mapped};
use super::reloc::{self, Binding, Resolve};
use super::symbols::{self, Name};
use super::{service, tls};
use crate::arch::memcpy;
use crate::fatal::cannot_start;
use crate::lock::Lock;
use crate::sys::{self, Handle, PAGE_SIZE};
use crate::system::check;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

/// A loaded image.
pub struct Module {
    /// Its name, with a NUL.
    pub name: &'static [u8],
    pub mapped: Mapped,
    pub dynamic: Dynamic,
    /// Indices of the modules that it needs.
    pub needs: Vec<usize>,
    /// Distance of its TLS block from the thread pointer.
    pub tls_offset: Option<usize>,
    /// Whether its symbols are bound and its RELRO part is protected.
    pub bound: bool,
    /// Whether its initialisers have run, or are about to.
    pub initialised: bool,
}

impl Module {
    /// The name without its NUL.
    pub fn name(&self) -> &'static [u8] {
        self.name.strip_suffix(b"\0").unwrap_or(self.name)
    }

    /// The name as text, for messages.
    pub fn display(&self) -> &'static str {
        text(self.name())
    }
}

/// A name as text, for messages.
pub fn text(name: &'static [u8]) -> &'static str {
    core::str::from_utf8(name).unwrap_or("?")
}

/// Copies a name to memory that is never freed, with a NUL.
fn leak(name: &[u8]) -> &'static [u8] {
    let mut owned = name.to_vec();
    owned.push(0);
    Box::leak(owned.into_boxed_slice())
}

/// All modules, and the number of changes.
pub struct Modules {
    pub list: Vec<Module>,
    /// Number of modules ever added; unwinders use it to validate their caches.
    pub added: u64,
}

/// Whether code is the system's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum System {
    Vdso,
    /// It is this library's or libfdio's, whose locks are not the program's.
    Library,
    Not,
}

/// The lowest address of each library of the system, and the address behind it. They stay mapped.
static PLACES: [[AtomicUsize; 2]; 3] = [const { [const { AtomicUsize::new(0) }; 2] }; 3];

/// Whose code is at an address. Takes no lock.
pub fn system_at(address: usize) -> System {
    let [start, end] = [0, 1].map(|of| move |place: &[AtomicUsize; 2]| place[of].load(Ordering::Relaxed));
    match PLACES.iter().position(|place| (start(place)..end(place)).contains(&address)) {
        Some(0) => System::Vdso,
        Some(_) => System::Library,
        None => System::Not,
    }
}

/// The linker's state. The lock is not held while a module's code runs.
pub static MODULES: Lock<Modules> = Lock::new(Modules { list: Vec::new(), added: 0 });
/// Address of the program's own copy of `environ`; 0 if it has none.
static ENVIRON: AtomicUsize = AtomicUsize::new(0);

/// An image that is already mapped and not yet in the list, with its name.
type Waiting = (&'static [u8], Box<(Mapped, Dynamic)>);

/// The images that are mapped before the linker runs.
pub struct Present {
    pub own: Box<(Mapped, Dynamic)>,
    pub vdso: Box<(Mapped, Dynamic)>,
}

const OWN_NAME: &[u8] = b"libc.so";
const VDSO_NAME: &[u8] = b"libzircon.so";
const FDIO_NAME: &[u8] = b"libfdio.so";

/// Loads and binds the program in `vmo`, named `name` in messages; returns its entry point. `loaded` is the VMAR of
/// this library's own image.
#[inline(never)]
pub fn link_program(vmo: Handle, name: &[u8], present: Present, loaded: Handle) -> usize {
    let program = leak(name);
    let mut modules = MODULES.lock();
    let entry = match load(&mut modules, vmo, program) {
        Ok(index) => modules.list[index].mapped.entry,
        Err(why) => cannot_start(format_args!("ld.so.1: {why}")),
    };
    let image = &modules.list[0].mapped.image;
    if !image.is_code(entry.wrapping_sub(image.bias())) {
        cannot_start(format_args!("ld.so.1: {}: its first instruction is not code", modules.list[0].display()));
    }
    let mut present = [Some((OWN_NAME, present.own)), Some((VDSO_NAME, present.vdso))];
    if let Err(why) = load_needs(&mut modules, 0, &mut present) {
        cannot_start(format_args!("ld.so.1: {why}"));
    }
    for (name, image) in present.into_iter().flatten() {
        push(&mut modules, leak(name), image.0, image.1);
    }
    for module in &mut modules.list {
        let name = module.name();
        if name == OWN_NAME || name == VDSO_NAME {
            // The vDSO needs no binding, and this library has bound itself. Neither has initialisers.
            module.bound = true;
            module.initialised = true;
        }
        if name == OWN_NAME {
            module.mapped.region = loaded;
        }
    }
    if let Err(why) = bind_own_weak(&modules) {
        cannot_start(format_args!("ld.so.1: libc.so cannot be bound: {why:?}"));
    }
    if let Err(why) = bind_all(&mut modules) {
        cannot_start(format_args!("ld.so.1: {why}"));
    }
    let cell = find_in(&modules, &Name::new(b"environ")).map_or(0, |(index, symbol)| address(&modules, index, &symbol));
    ENVIRON.store(cell, Ordering::Relaxed);
    entry
}

/// Binds this library's weak references to libfdio, which was not loaded when this library bound itself.
fn bind_own_weak(modules: &Modules) -> Result<(), reloc::Failure> {
    let Some(index) = modules.list.iter().position(|module| module.name() == OWN_NAME) else { return Ok(()) };
    let module = &modules.list[index];
    reloc::apply_weak(&module.mapped.image, &module.dynamic, &mut Scope { modules, index })?;
    protect(module);
    Ok(())
}

fn name_of(name: &'static [u8]) -> &'static [u8] {
    name.strip_suffix(b"\0").unwrap_or(name)
}

/// Adds a module to the list.
fn push(modules: &mut Modules, name: &'static [u8], mapped: Mapped, dynamic: Dynamic) -> usize {
    let plain = name.strip_suffix(b"\0").unwrap_or(name);
    if let Some(index) = [VDSO_NAME, OWN_NAME, FDIO_NAME].iter().position(|&system| system == plain) {
        let (start, end) = mapped.image.range();
        PLACES[index][0].store(start, Ordering::Relaxed);
        PLACES[index][1].store(end, Ordering::Relaxed);
    }
    modules.list.push(Module {
        name,
        mapped,
        dynamic,
        needs: Vec::new(),
        tls_offset: None,
        bound: false,
        initialised: false,
    });
    modules.added += 1;
    modules.list.len() - 1
}

/// Maps the file in `vmo` as the module `name`, and closes `vmo`.
fn load(modules: &mut Modules, vmo: Handle, name: &'static [u8]) -> Result<usize, String> {
    let mapped = map::map(vmo);
    // SAFETY: the mappings keep the VMO alive.
    unsafe { sys::zx_handle_close(vmo) };
    let shown = text(name_of(name));
    let mapped = mapped.map_err(|why| format!("{shown} cannot be loaded: {why}"))?;
    let dynamic = match mapped.layout.dynamic {
        Some((vaddr, size)) => Dynamic::parse(&mapped.image, vaddr, size),
        None => Err("dynamic section is missing"),
    };
    let dynamic = dynamic.map_err(|why| format!("{shown} cannot be loaded: its {why}"))?;
    let tls = mapped.layout.tls;
    let index = push(modules, name, mapped, dynamic);
    let module = &mut modules.list[index];
    if let Some(segment) = tls {
        let offset = tls::add(&module.mapped.image, &segment);
        if offset.is_none() {
            modules.list.pop();
            return Err(format!(
                "{shown} cannot be loaded: it has thread-local variables and the program runs already"
            ));
        }
        module.tls_offset = offset;
    }
    Ok(index)
}

/// Loads the libraries that the modules from `first` on need, and those that these need in turn.
pub fn load_needs(modules: &mut Modules, first: usize, present: &mut [Option<Waiting>]) -> Result<(), String> {
    let mut next = first;
    while next < modules.list.len() {
        let needed: Vec<_> = {
            let module = &modules.list[next];
            module.dynamic.needed(&module.mapped.image).collect()
        };
        for name in needed {
            let needer = modules.list[next].display();
            let name = name.ok_or_else(|| format!("{needer} cannot be loaded: its libraries have no names"))?;
            let index = match index_of(modules, name) {
                Some(index) => index,
                None => match present.iter_mut().find(|slot| slot.as_ref().is_some_and(|slot| slot.0 == name)) {
                    Some(slot) => match slot.take() {
                        Some((_, image)) => push(modules, leak(name), image.0, image.1),
                        None => continue,
                    },
                    None => {
                        let vmo = service::load_object(name).map_err(|status| match status {
                            sys::ERR_NOT_FOUND => format!("{needer}: library {} not found", text(name)),
                            _ => format!("{needer}: library {} not loaded: status {status}", text(name)),
                        })?;
                        load(modules, vmo, leak(name))?
                    }
                },
            };
            modules.list[next].needs.push(index);
        }
        next += 1;
    }
    Ok(())
}

/// The module with this name or soname.
pub fn index_of(modules: &Modules, name: &[u8]) -> Option<usize> {
    modules
        .list
        .iter()
        .position(|module| module.name() == name || module.dynamic.soname().is_some_and(|own| own == name))
}

/// The first definition of a symbol, in module order.
pub fn find_in(modules: &Modules, name: &Name) -> Option<(usize, Symbol)> {
    find_except(modules, name, usize::MAX)
}

fn find_except(modules: &Modules, name: &Name, except: usize) -> Option<(usize, Symbol)> {
    modules.list.iter().enumerate().filter(|&(index, _)| index != except).find_map(|(index, module)| {
        let symbol = symbols::find(&module.mapped.image, &module.dynamic, name)?;
        Some((index, symbol))
    })
}

/// The address of a symbol of the module at `index`.
pub fn address(modules: &Modules, index: usize, symbol: &Symbol) -> usize {
    let bias = modules.list[index].mapped.image.bias();
    let value = symbol.value as usize;
    if symbol.is_absolute() {
        return value;
    }
    let address = bias.wrapping_add(value);
    if symbol.is_ifunc() { call_indirect(address) } else { address }
}

/// Calls an IFUNC resolver; returns the address of the function.
fn call_indirect(address: usize) -> usize {
    // SAFETY: the image says that a resolver is at this address; loading an image means running its code.
    unsafe { core::mem::transmute::<usize, extern "C" fn() -> usize>(address)() }
}

/// Binds all modules that are not bound yet, beginning with those that others need.
pub fn bind_all(modules: &mut Modules) -> Result<(), String> {
    for index in (0..modules.list.len()).rev() {
        if modules.list[index].bound {
            continue;
        }
        bind(modules, index).map_err(|failure| {
            let name = modules.list[index].display();
            match failure {
                reloc::Failure::Image(reason) => format!("{name} cannot be bound: its {reason}"),
                reloc::Failure::Type(kind) => format!("{name} cannot be bound: relocation type {kind} is not known"),
                reloc::Failure::Undefined(symbol) => format!("{name}: symbol {} not found", text(symbol)),
            }
        })?;
        modules.list[index].bound = true;
        protect(&modules.list[index]);
    }
    Ok(())
}

fn bind(modules: &Modules, index: usize) -> Result<(), reloc::Failure> {
    let module = &modules.list[index];
    reloc::apply_relr(&module.mapped.image, module.dynamic.relr)?;
    reloc::apply(&module.mapped.image, &module.dynamic, &mut Scope { modules, index })
}

/// Makes the RELRO part of a module read-only.
fn protect(module: &Module) {
    let Some((vaddr, len)) = module.mapped.layout.relro else { return };
    let start = vaddr & !(PAGE_SIZE - 1);
    // The last page is protected only if all of it belongs to the part.
    let len = (vaddr + len - start) & !(PAGE_SIZE - 1);
    let Some(address) = module.mapped.image.address(start, len).filter(|_| len > 0) else { return };
    // SAFETY: the pages hold only relocated tables.
    let status = unsafe { sys::zx_vmar_protect(module.mapped.region, sys::VM_PERM_READ, address, len) };
    if check(status).is_err() {
        crate::fatal::report(format_args!("ld.so.1: {}: relocated data stay writable ({status})", module.display()));
    }
}

/// Symbol resolution from the module at `index`.
struct Scope<'a> {
    modules: &'a Modules,
    index: usize,
}

impl Resolve for Scope<'_> {
    fn bind(&mut self, name: &Name<'static>, symbol: &Symbol) -> Option<Binding> {
        // A symbol that other modules do not see resolves to the module's own.
        let local = (symbol.is_defined() && !symbol.is_global()).then_some((self.index, *symbol));
        match local.or_else(|| find_in(self.modules, name)) {
            Some((index, found)) if found.is_tls() => {
                let module = self.modules.list[index].tls_offset?;
                Some(Binding::Tls { module, offset: found.value as usize })
            }
            Some((index, found)) => Some(Binding::Address(address(self.modules, index, &found))),
            None if symbol.is_weak() && symbol.is_tls() => Some(Binding::NoTls),
            None if symbol.is_weak() => Some(Binding::Address(0)),
            None => None,
        }
    }

    fn own_tls(&self) -> Option<usize> {
        self.modules.list[self.index].tls_offset
    }

    fn copy(&mut self, name: &Name<'static>, to: usize, size: usize) -> Option<()> {
        let (index, symbol) = find_except(self.modules, name, self.index)?;
        let image = &self.modules.list[index].mapped.image;
        let size = size.min(symbol.size as usize);
        let from = image.address(symbol.value as usize, size)?;
        // SAFETY: both ranges were checked against their images' segments.
        unsafe { memcpy(to as *mut u8, from as *const u8, size) };
        Some(())
    }

    fn tls_descriptor(&self, offset: Option<usize>) -> (usize, usize) {
        tls::descriptor(offset)
    }

    fn indirect(&mut self, address: usize) -> usize {
        call_indirect(address)
    }
}

/// A module's initialiser or finaliser.
type Hook = extern "C" fn();

/// The addresses in an array of initialisers or finalisers.
fn hooks(module: &Module, vaddr: usize, size: usize) -> Vec<usize> {
    let image = &module.mapped.image;
    (0..size / 8)
        .map_while(|index| image.read(vaddr.checked_add(index * 8)?))
        .filter(|&hook| hook != 0 && hook != usize::MAX)
        .collect()
}

/// Module indices in an order in which each module comes after all that it needs.
fn dependency_order(modules: &Modules) -> Vec<usize> {
    let mut order = Vec::new();
    let mut seen = vec![false; modules.list.len()];
    // (module, number of its needed modules that have been visited)
    let mut path = Vec::new();
    for root in 0..modules.list.len() {
        if core::mem::replace(&mut seen[root], true) {
            continue;
        }
        path.push((root, 0));
        while let Some((index, done)) = path.last_mut() {
            let index = *index;
            match modules.list[index].needs.get(*done) {
                Some(&need) => {
                    *done += 1;
                    if !core::mem::replace(&mut seen[need], true) {
                        path.push((need, 0));
                    }
                }
                None => {
                    order.push(index);
                    path.pop();
                }
            }
        }
    }
    order
}

/// Runs the initialisers of all modules that have not run theirs, needed modules first.
pub fn initialise() {
    let calls = {
        let mut modules = MODULES.lock();
        let mut calls = Vec::new();
        if let Some(program) = modules.list.first().filter(|program| !program.initialised) {
            let array = program.dynamic.preinit_array;
            calls.extend(hooks(program, array.vaddr, array.size));
        }
        for index in dependency_order(&modules) {
            let module = &mut modules.list[index];
            if core::mem::replace(&mut module.initialised, true) {
                continue;
            }
            if module.dynamic.init != 0 {
                calls.push(module.mapped.image.bias().wrapping_add(module.dynamic.init));
            }
            let array = module.dynamic.init_array;
            calls.extend(hooks(module, array.vaddr, array.size));
        }
        calls
    };
    run(&calls);
}

/// Runs the finalisers of all modules, in the reverse order of their initialisers.
pub fn finalise() {
    let calls = {
        let modules = MODULES.lock();
        let mut calls = Vec::new();
        for index in dependency_order(&modules).into_iter().rev() {
            let module = &modules.list[index];
            let array = module.dynamic.fini_array;
            calls.extend(hooks(module, array.vaddr, array.size).into_iter().rev());
            if module.dynamic.fini != 0 {
                calls.push(module.mapped.image.bias().wrapping_add(module.dynamic.fini));
            }
        }
        calls
    };
    run(&calls);
}

fn run(calls: &[usize]) {
    for &hook in calls {
        // SAFETY: a bound module declares these functions; to load a module means to run them.
        unsafe { core::mem::transmute::<usize, Hook>(hook)() };
    }
}

/// The address of a symbol that any module defines.
pub fn find_global(name: &[u8]) -> Option<usize> {
    let modules = MODULES.lock();
    let (index, symbol) = find_in(&modules, &Name::new(name))?;
    Some(address(&modules, index, &symbol))
}

/// The program's own variable `environ`, if it has one.
pub fn environ_cell<T>() -> Option<*mut T> {
    let cell = ENVIRON.load(Ordering::Relaxed);
    (cell != 0).then_some(cell as *mut T)
}

/// The stack size in bytes that the program's file requests.
pub fn program_stack() -> usize {
    MODULES.lock().list.first().map_or(0, |program| program.mapped.layout.stack)
}

/// Loads a library and the libraries that it needs while the program runs (`dlopen`); returns its index. If that fails,
/// nothing remains in the list (but files that were mapped remain mapped).
pub fn load_library(modules: &mut Modules, name: &[u8]) -> Result<usize, String> {
    let first = modules.list.len();
    let result = (|| {
        let vmo = service::load_object(name)
            .map_err(|status| format!("library {} not found ({status})", core::str::from_utf8(name).unwrap_or("?")))?;
        load(modules, vmo, leak(name))?;
        load_needs(modules, first, &mut [])?;
        bind_all(modules)?;
        Ok(first)
    })();
    if result.is_err() {
        modules.list.truncate(first);
    }
    result
}
