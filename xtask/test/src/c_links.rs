//! `c.links`: each header of the C library compiles by itself, and everything that it declares is in the libraries.
//!
//! The compiler reports what a header declares, so no list of names can become outdated.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, io::Write as _, thread};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use super::{Cases, Context, Test};
use xtask_build::c::front;
use xtask_build::cargo;
use xtask_common::words::tail;

/// Declarations that are never in a library: the compiler's own, and tables of `arpa/telnet.h` that the including file
/// requests from that header.
const IN_NO_LIBRARY: [&str; 5] = ["alloca", "authtype_names", "encrypt_names", "enctype_names", "slc_names"];

pub fn test() -> Test {
    Test::many("c.links", links)
}

/// The compiler's syntax tree of a source, as far as it is needed here.
#[derive(Deserialize)]
struct Tree {
    inner: Vec<Declaration>,
}

/// A top-level declaration.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Declaration {
    kind: String,
    name: Option<String>,
    mangled_name: Option<String>,
    storage_class: Option<String>,
    #[serde(default)]
    is_implicit: bool,
    #[serde(default)]
    inner: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    kind: Option<String>,
}

impl Declaration {
    /// The symbol that must be in a library, if the declaration has one.
    fn symbol(&self) -> Option<&str> {
        let class = self.storage_class.as_deref();
        let elsewhere = match self.kind.as_str() {
            "FunctionDecl" => {
                class != Some("static") && !self.inner.iter().any(|part| part.kind.as_deref() == Some("CompoundStmt"))
            }
            "VarDecl" => class == Some("extern"),
            _ => false,
        };
        let name = self.mangled_name.as_deref().or(self.name.as_deref())?;
        (elsewhere && !self.is_implicit && !IN_NO_LIBRARY.contains(&name)).then_some(name)
    }
}

/// Runs the compiler on a source from standard input; returns its output.
fn compile(context: &Context<'_>, arguments: &[&str], source: &str) -> Result<Vec<u8>> {
    let mut compiler = Command::new(front::program(context.paths, "clang"));
    compiler.args(["-D_GNU_SOURCE", "-w", "-x", "c"]).args(arguments).arg("-");
    let mut child = compiler.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().context("the compiler takes no input")?.write_all(source.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

/// The symbols that a header declares.
fn declared(context: &Context<'_>, header: &str) -> Result<BTreeSet<String>> {
    let source = format!("#include <{header}>\n");
    let tree = compile(context, &["-fsyntax-only", "-Xclang", "-ast-dump=json"], &source)?;
    let tree: Tree = serde_json::from_slice(&tree).context("the compiler's tree cannot be read")?;
    Ok(tree.inner.iter().filter_map(Declaration::symbol).map(str::to_string).collect())
}

/// The symbols that a program cannot link with.
fn missing(context: &Context<'_>, symbols: &BTreeSet<&str>) -> Result<BTreeSet<String>> {
    let mut source = String::new();
    for (number, symbol) in symbols.iter().enumerate() {
        source += &format!("extern char s{number}[] __asm__(\"{symbol}\");\n");
    }
    source += "void *const all[] = {\n";
    (0..symbols.len()).for_each(|number| source += &format!("s{number},\n"));
    source += "};\nint main(void) { return all[0] == 0; }\n";
    let folder = context.paths.out.join("ctests");
    fs::create_dir_all(&folder).context("cannot make a folder for C tests")?;
    let program = folder.join("links");
    let program = program.to_str().context("the path of the tree is not UTF-8")?;
    let Err(error) = compile(context, &["-Wl,--error-limit=0", "-o", program, "-lzircon"], &source) else {
        return Ok(BTreeSet::new());
    };
    let text = error.to_string();
    let names = text.lines().filter_map(|line| line.split_once("undefined symbol: ").map(|(_, name)| name.to_string()));
    let names: BTreeSet<String> = names.collect();
    if names.is_empty() {
        bail!("the program of all symbols is not linked:\n{}", tail(&text, 20));
    }
    Ok(names)
}

fn links(context: &Context<'_>, cases: &mut Cases) -> Result<()> {
    context.built()?;
    let include = context.paths.out.join("sysroot/include");
    let mut headers = Vec::new();
    for file in cargo::sources(&include)? {
        let name = file.strip_prefix(&include).unwrap_or(&file);
        // Those are parts of other headers.
        if !name.starts_with(Path::new("bits")) {
            headers.push(name.to_str().context("a header's name is not UTF-8")?.to_string());
        }
    }
    let found = Mutex::new(BTreeMap::new());
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(header) = headers.get(next.fetch_add(1, Ordering::Relaxed)) {
            let symbols = declared(context, header);
            found.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(header, symbols);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let found = found.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    let all = found.values().flatten().flatten().map(String::as_str).collect();
    let missing = missing(context, &all)?;
    for (header, symbols) in &found {
        let result = match symbols {
            Err(error) => Err(format!("it does not compile by itself: {error:#}")),
            Ok(symbols) => match symbols.intersection(&missing).cloned().collect::<Vec<_>>().join(", ") {
                none if none.is_empty() => Ok(()),
                names => Err(format!("declared, and in no library: {names}")),
            },
        };
        cases.case(header, result);
    }
    Ok(())
}
