//! Memory that the service returns to the system. The tests run `latchmail serve`, because a test's
//! own process also holds the memory of its clients.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::join_all;
use latchmail_tests::process::memory_of;
use latchmail_tests::{HostProcess, PASSWORD, Person, Service, Variant};

/// The maximum growth of the service's memory from the first operations to the last ones, in MiB.
const MAX_GROWTH_MIB: u64 = 100;

/// Starts a service in a process of its own, and one address for each of four clients.
async fn service() -> (Service, HostProcess, Vec<String>) {
    let mut service = Service::with_mail_and("new_modules.paths = ['/variant/']").await;
    let mut addresses = Vec::new();
    for name in ["ada", "bo", "cy", "dee"] {
        addresses.push(service.person(name).await.address);
    }
    let process = service.restart_in_process().await;
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
            let response = service.send("GET /variant/version").await;
            assert!([200, 404].contains(&response.status), "{}", response.json);
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
            service.operator_with(&install, "").await.succeeds();
        }
        ended.store(true, Ordering::Relaxed);
    };
    tokio::join!(swaps, client(), client());
}

/// Returns the growth of the service's memory in MiB. `before` is in KiB.
fn growth_in_mib(before: u64, process: &HostProcess) -> u64 {
    memory_of(process.pid()).saturating_sub(before) / 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn password_hashes_leak_no_memory() {
    let (service, process, addresses) = service().await;
    sign_in(&service, &addresses, 4).await;
    let before = memory_of(process.pid());
    sign_in(&service, &addresses, 60).await;
    let more = growth_in_mib(before, &process);
    assert!(more < MAX_GROWTH_MIB, "{more} MiB more than before");
}

mod long {
    use latchmail_tests::process::memory_of;

    use super::{MAX_GROWTH_MIB, growth_in_mib, service, sign_in, swap};

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn ten_thousand_sign_ins_and_a_thousand_swaps_leak_no_memory() {
        let (service, process, addresses) = service().await;
        sign_in(&service, &addresses, 100).await;
        swap(&service, 0..100).await;
        let before = memory_of(process.pid());
        sign_in(&service, &addresses, 9_900).await;
        let signed_in = growth_in_mib(before, &process);
        swap(&service, 100..1_000).await;
        let swapped = growth_in_mib(before, &process);
        println!("{before} KiB, {signed_in} MiB more after sign-ins, {swapped} after swaps");
        assert!(signed_in <= MAX_GROWTH_MIB && swapped <= MAX_GROWTH_MIB);
    }
}
