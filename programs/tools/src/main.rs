//! Small programs for files and text: one program under many names.
//!
//! All except `echo`, `ls` and `sort` come from the uutils project, unchanged. `ls` and `sort` of uutils need Unix
//! calls that do not exist here. `echo` is also a builtin of the shell and needs no package. When this program is
//! called by its own name, the first argument is the program's name.
#![forbid(unsafe_code)]

mod echo;
mod ls;
mod sort;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

/// Runs the program with this name; `None` if there is none.
fn run(name: &str, arguments: std::vec::IntoIter<OsString>) -> Option<i32> {
    Some(match name {
        "base64" => uu_base64::uumain(arguments),
        "basename" => uu_basename::uumain(arguments),
        "cat" => uu_cat::uumain(arguments),
        "cksum" => uu_cksum::uumain(arguments),
        "comm" => uu_comm::uumain(arguments),
        "cp" => uu_cp::uumain(arguments),
        "cut" => uu_cut::uumain(arguments),
        "dirname" => uu_dirname::uumain(arguments),
        "env" => uu_env::uumain(arguments),
        "fold" => uu_fold::uumain(arguments),
        "head" => uu_head::uumain(arguments),
        "ln" => uu_ln::uumain(arguments),
        "mkdir" => uu_mkdir::uumain(arguments),
        "mv" => uu_mv::uumain(arguments),
        "od" => uu_od::uumain(arguments),
        "paste" => uu_paste::uumain(arguments),
        "printenv" => uu_printenv::uumain(arguments),
        "readlink" => uu_readlink::uumain(arguments),
        "realpath" => uu_realpath::uumain(arguments),
        "rm" => uu_rm::uumain(arguments),
        "rmdir" => uu_rmdir::uumain(arguments),
        "seq" => uu_seq::uumain(arguments),
        "sha256sum" => uu_sha256sum::uumain(arguments),
        "sleep" => uu_sleep::uumain(arguments),
        "split" => uu_split::uumain(arguments),
        "tac" => uu_tac::uumain(arguments),
        "tail" => uu_tail::uumain(arguments),
        "tee" => uu_tee::uumain(arguments),
        "touch" => uu_touch::uumain(arguments),
        "tr" => uu_tr::uumain(arguments),
        "uniq" => uu_uniq::uumain(arguments),
        "wc" => uu_wc::uumain(arguments),
        "yes" => uu_yes::uumain(arguments),
        "echo" => echo::main(arguments),
        "ls" => ls::main(arguments),
        "sort" => sort::main(arguments),
        _ => return None,
    })
}

/// The program's name in a path.
fn name(path: &OsString) -> String {
    Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn main() {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.first().is_some_and(|path| name(path) == "tools") {
        arguments.remove(0);
    }
    let name = arguments.first().map(name).unwrap_or_default();
    if let Err(error) = uucore::locale::setup_localization(&name) {
        eprintln!("{name}: its messages cannot be read: {error}");
    }
    let Some(code) = run(&name, arguments.into_iter()) else {
        eprintln!("tools: {name}: there is no such tool");
        std::process::exit(127);
    };
    let _ = std::io::stdout().flush();
    std::process::exit(code);
}
