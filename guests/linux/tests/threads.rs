//! A Rust program without shared libraries: threads that share, unwinding, floating point, a child.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, mpsc};
use std::{env, panic, process, thread};

fn main() {
    if env::args().nth(1).as_deref() == Some("child") {
        println!("the child");
        process::exit(6);
    }
    let count: u64 = env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(100);
    let words = Arc::new(Mutex::new(BTreeMap::new()));
    let (tell, told) = mpsc::channel();
    let threads: Vec<_> = (0..4u64)
        .map(|number| {
            let (words, tell) = (words.clone(), tell.clone());
            thread::spawn(move || {
                for n in 0..count {
                    *words.lock().unwrap().entry(n % 7).or_insert(0.0) += (n as f64).sqrt();
                    if n % 100 == number {
                        tell.send(n).unwrap();
                    }
                }
            })
        })
        .collect();
    drop(tell);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("{} {}", told.iter().count(), told.iter().count());
    // The order of additions differs from run to run, and so may the last digits.
    for (word, sum) in words.lock().unwrap().iter() {
        println!("{word} {sum:.6}");
    }
    panic::set_hook(Box::new(|_| {}));
    println!("{}", panic::catch_unwind(|| [1, 2, 3][env::args().count() + 5]).is_err());
    let child = process::Command::new(env::current_exe().unwrap()).arg("child").output().unwrap();
    println!("{} {:?}", String::from_utf8_lossy(&child.stdout).trim(), child.status.code());
}
