//! Memory that the service returns to the system. The tests run `latchmail serve`, because a test's own process also holds the memory of its clients.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::join_all;
use latchmail_tests::process::memory_of;
use latchmail_tests::{PASSWORD, Person, Process, Service, Variant};

/// MiB that the service may use after many operations, more than after the first ones.
const MORE: u64 = 100;

/// A service in a process of its own, and one address for each of four clients.
async fn service() -> (Service, Process, Vec<String>) {
    let mut service = Service::with_mail_and("new_modules.paths = ['/variant/']").await;
    let mut addresses = Vec::new();
    for name in ["ada", "bo", "cy", "dee"] {
        addresses.push(service.person(name).await.address);
    }
    let process = service.become_process().await;
    (service, process, addresses)
}

/// Signs in `times` times, all clients at once.
async fn sign_in(service: &Service, addresses: &[String], times: usize) {
    let begun = AtomicUsize::new(0);
    let clients = addresses.iter().map(|address| async {
        while begun.fetch_add(1, Ordering::Relaxed) < times {
            Person::sign_in(service, address, PASSWORD).await;
        }
    });
    join_all(clients).await;
}

/// Replaces a module by another version, again and again, while clients use it.
async fn swap(service: &Service, times: Range<usize>) {
    let ended = AtomicBool::new(false);
    let client = async || {
        while !ended.load(Ordering::Relaxed) {
            let answer = service.ask("GET /variant/version").await;
            assert!([200, 404].contains(&answer.status), "{}", answer.json);
        }
    };
    let swaps = async {
        let file = service.state.join("variant.wasm");
        for time in times {
            let version = ["1.0.0", "2.0.0"][time % 2];
            let variant = Variant {
                version,
                ..Variant::default()
            };
            std::fs::write(&file, variant.component()).unwrap();
            let install = ["module", "install", "--yes", file.to_str().unwrap()];
            service.operator_with(&install, "").await.done();
        }
        ended.store(true, Ordering::Relaxed);
    };
    tokio::join!(swaps, client(), client());
}

/// MiB that the service uses more than `before`, in KiB.
fn more_than(before: u64, process: &Process) -> u64 {
    memory_of(process.pid()).saturating_sub(before) / 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn password_hashes_leak_no_memory() {
    let (service, process, addresses) = service().await;
    sign_in(&service, &addresses, 4).await;
    let before = memory_of(process.pid());
    sign_in(&service, &addresses, 60).await;
    let more = more_than(before, &process);
    assert!(more < MORE, "{more} MiB more than before");
}

mod long {
    use latchmail_tests::process::memory_of;

    use super::{MORE, more_than, service, sign_in, swap};

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn ten_thousand_sign_ins_and_a_thousand_swaps_leak_no_memory() {
        let (service, process, addresses) = service().await;
        sign_in(&service, &addresses, 100).await;
        swap(&service, 0..100).await;
        let before = memory_of(process.pid());
        sign_in(&service, &addresses, 9_900).await;
        let signed_in = more_than(before, &process);
        swap(&service, 100..1_000).await;
        let swapped = more_than(before, &process);
        println!("{before} KiB, {signed_in} MiB more after sign-ins, {swapped} after swaps");
        assert!(signed_in <= MORE && swapped <= MORE);
    }
}
