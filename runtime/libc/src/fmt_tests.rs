use super::*;
use proptest::prelude::*;

enum Value {
    Int(u64),
    Double(f64),
    Long([u8; 10]),
}

struct List(std::vec::IntoIter<Value>);

impl Arguments for List {
    fn int(&mut self) -> u64 {
        match self.0.next() {
            Some(Value::Int(value)) => value,
            _ => 0,
        }
    }
    fn double(&mut self) -> f64 {
        match self.0.next() {
            Some(Value::Double(value)) => value,
            _ => 0.0,
        }
    }
    fn long_double(&mut self) -> [u8; 10] {
        match self.0.next() {
            Some(Value::Long(value)) => value,
            _ => [0; 10],
        }
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

fn print(text: &str, values: Vec<Value>) -> String {
    let mut out = Vec::new();
    // SAFETY: the tests pass what their formats ask for.
    let count = unsafe { format(&mut out, text.as_bytes(), &mut List(values.into_iter())) };
    assert_eq!(count, out.len());
    String::from_utf8_lossy(&out).into_owned()
}

fn int(text: &str, value: i64) -> String {
    print(text, vec![Value::Int(value as u64)])
}

fn real(text: &str, value: f64) -> String {
    print(text, vec![Value::Double(value)])
}

#[test]
fn integers() {
    assert_eq!(int("%d", -5), "-5");
    assert_eq!(int("%5d|", 42), "   42|");
    assert_eq!(int("%-5d|", 42), "42   |");
    assert_eq!(int("%05d", -42), "-0042");
    assert_eq!(int("%+.3d", 7), "+007");
    assert_eq!(int("%x", -1), "ffffffff");
    assert_eq!(int("%lx", -1), "ffffffffffffffff");
    assert_eq!(int("%#X", 255), "0XFF");
    assert_eq!(int("%#o", 8), "010");
    assert_eq!(int("%hhd", 255), "-1");
    assert_eq!(int("%.0d", 0), "");
    assert_eq!(int("%p", 4096), "0x1000");
    assert_eq!(int("%zu", 18), "18");
    assert_eq!(int("%c%%", 65), "A%");
    assert_eq!(print("%*d", vec![Value::Int(6), Value::Int(1)]), "     1");
    assert_eq!(print("%-*d|", vec![Value::Int(-(3i64) as u64), Value::Int(1)]), "1  |");
}

#[test]
fn strings() {
    let text = c"hello";
    let pointer = text.as_ptr() as u64 as i64;
    assert_eq!(int("<%s>", pointer), "<hello>");
    assert_eq!(int("<%8.3s>", pointer), "<     hel>");
    assert_eq!(int("%s", 0), "(null)");
}

#[test]
fn floats() {
    assert_eq!(real("%f", 1.5), "1.500000");
    assert_eq!(real("%.0f", 2.5), "2");
    assert_eq!(real("%08.2f", -2.7185), "-0002.72");
    assert_eq!(real("%e", 12345.678), "1.234568e+04");
    assert_eq!(real("%.2E", 0.00012), "1.20E-04");
    assert_eq!(real("%g", 100000.0), "100000");
    assert_eq!(real("%g", 1000000.0), "1e+06");
    assert_eq!(real("%g", 0.0001), "0.0001");
    assert_eq!(real("%g", 0.00001), "1e-05");
    assert_eq!(real("%g", 0.5), "0.5");
    assert_eq!(real("%#g", 0.5), "0.500000");
    assert_eq!(real("%a", 1.0), "0x1p+0");
    assert_eq!(real("%a", 0.1), "0x1.999999999999ap-4");
    assert_eq!(real("%.1a", 1.96875), "0x2.0p+0");
    assert_eq!(real("%5f", f64::INFINITY), "  inf");
    assert_eq!(real("%F", f64::NAN), "NAN");
    // 1.5 as an x87 extended value: exponent 16383, mantissa 0xc000000000000000.
    assert_eq!(print("%Lf", vec![Value::Long([0, 0, 0, 0, 0, 0, 0, 0xc0, 0xff, 0x3f])]), "1.500000");
}

#[test]
fn what_is_no_conversion_is_shown() {
    assert_eq!(print("100% y%", vec![]), "100% y");
    assert_eq!(print("%y", vec![]), "%y");
}

proptest! {
    #[test]
    fn no_format_panics(text in "[%a-zA-Z0-9.*# +-]{0,20}", value: u64, real: f64) {
        // No pointers from thin air: %s and %n read or write through theirs.
        prop_assume!(!text.contains('s') && !text.contains('n') && !text.contains('*'));
        prop_assume!(!text.bytes().zip(text.bytes().skip(5)).any(|(a, b)| a.is_ascii_digit() && b.is_ascii_digit()));
        let values = (0..20).map(|n| if n % 2 == 0 { Value::Int(value) } else { Value::Double(real) }).collect();
        print(&text, values);
    }

    #[test]
    fn plain_floats_agree_with_rust(value: f64, digits in 0usize..20) {
        prop_assume!(value.is_finite());
        prop_assert_eq!(real(&format!("%.{digits}f"), value), format!("{value:.digits$}"));
    }
}
