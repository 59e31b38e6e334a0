use std::collections::BTreeSet;
use std::path::Path;

use super::{AnyFamily, Counter, FAMILIES, Family, Gauge, HTTP_REQUESTS, IMAP_COMMANDS, export};

/// Returns the rows of the tables of `docs/metrics.md`: name, kind, labels, and help text.
fn documented() -> Vec<[String; 4]> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let text = std::fs::read_to_string(file).unwrap();
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| `latchmail_"));
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, help] = cells[..] else {
            panic!("{row}");
        };
        [name, kind, labels, help].map(|cell| cell.replace('`', ""))
    })
    .collect()
}

#[test]
fn the_documentation_has_exactly_the_exported_families() {
    let exported = FAMILIES.iter().map(|family| {
        let labels = family.labels().join(", ");
        [family.name(), family.kind(), &labels, family.help()].map(ToOwned::to_owned)
    });
    let exported: Vec<_> = exported.collect();
    assert_eq!(documented(), exported);
}

#[test]
fn names_and_labels_follow_the_conventions() {
    let labels = [
        "area", "command", "method", "module", "outcome", "route", "status", "version",
    ];
    let mut names = BTreeSet::new();
    for family in FAMILIES {
        let name = family.name();
        assert!(names.insert(name), "{name} is not unique");
        assert!(name.starts_with("latchmail_"), "{name}");
        assert_eq!(
            family.kind() == "counter",
            name.ends_with("_total"),
            "{name}"
        );
        assert_eq!(
            family.kind() == "histogram",
            name.ends_with("_seconds") && family.kind() != "gauge",
            "{name}"
        );
        assert!(
            family.labels().iter().all(|label| labels.contains(label)),
            "{name}"
        );
    }
}

#[test]
fn every_family_is_exported_from_the_start() {
    let text = export().unwrap();
    for family in FAMILIES {
        let (name, kind) = (family.name(), family.kind());
        assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{name}");
        let is_dynamic = family.labels().contains(&"module");
        let series = text.lines().filter(|line| line.starts_with(name)).count();
        assert!(series > 0 || is_dynamic, "{name}");
    }
    assert!(text.contains("latchmail_rate_limited_total{area=\"sign_in_address\"} 0\n"));
    assert!(
        text.contains("latchmail_imap_commands_total{command=\"FETCH\",outcome=\"failed\"} 0\n")
    );
}

#[test]
fn events_are_counted_by_label() {
    let before = HTTP_REQUESTS.with(["/x", "GET", "500"]).get();
    HTTP_REQUESTS.increment(["/x", "GET", "500"]);
    assert!(HTTP_REQUESTS.with(["/x", "GET", "500"]).get() > before);
    assert!(IMAP_COMMANDS.with(["other", "no"]).get() < 1.0);
}

#[test]
fn all_series_of_a_counter_can_be_read() {
    static READ: Counter<2> =
        Family::new("latchmail_read", "A test.", [("z", &["1"]), ("a", &["2"])]);
    READ.increment(["x", "y"]);
    READ.increment(["x", "y"]);
    let mut values = READ.read();
    values.sort_by(|(one, _), (other, _)| one.cmp(other));
    let labels = |z: &str, a: &str| [z.to_owned(), a.to_owned()];
    assert_eq!(values, [(labels("1", "2"), 0.0), (labels("x", "y"), 2.0)]);
}

#[test]
fn a_gauge_has_the_number_of_running_operations() {
    static RUNNING: Gauge<0> = Family::new("latchmail_test", "A test.", []);
    let first = RUNNING.begin();
    let second = RUNNING.begin();
    assert_eq!(RUNNING.with([]).get(), 2);
    drop(first);
    assert_eq!(RUNNING.with([]).get(), 1);
    drop(second);
    RUNNING.set([], u64::MAX);
    assert_eq!(RUNNING.with([]).get(), i64::MAX);
    RUNNING.clear();
    let mut text = String::new();
    RUNNING.write(&mut text).unwrap();
    assert_eq!(
        text,
        "# HELP latchmail_test A test.\n# TYPE latchmail_test gauge\n"
    );
}
