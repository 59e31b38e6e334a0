//! A full disk: searches return the right messages, the host runs, and the index is complete as
//! soon as there is space.

mod long {
    use std::io::Write as _;
    use std::time::Duration;

    use latchmail_tests::{Random, Service, log_in};
    use tokio::time::{Instant, sleep};

    use super::super::damage::Mailbox;
    use super::super::{Account, is_ready, text, wait_for_index};

    /// How long the test searches while the disk is full. The service retries in this time.
    const FULL: Duration = Duration::from_secs(25);

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "it takes long; ./just test-all runs it"]
    async fn on_a_full_disk_searches_are_right_and_the_index_is_complete_after_it_has_space() {
        let mut service = Service::with_mail().await;
        let (password, mut account) = {
            let ada = service.person("ada").await;
            let made = ada.app_password("another client").await;
            (text(&made["password"]), Account::new(&ada.address))
        };
        let client = log_in(&service, &account.address, &password).await;
        let (mut client, mut random) = (client.unwrap(), Random::new(7));
        let mut mailbox = Mailbox::default();
        mailbox.append(&mut client, 600).await;

        // The index does not fit on the disk.
        let folder = service.state.join("index");
        let mut host = service.restart_with_small_disk(&folder, "64k").await;
        account.renew(&service).await;
        let ada = account.person(&service);
        let full = Instant::now();
        while full.elapsed() < FULL {
            mailbox.assert_found(&ada, &mut random).await;
            sleep(Duration::from_millis(500)).await;
        }
        assert!(!is_ready(&ada).await, "the disk is too large for this test");
        assert!(host.is_running());
        host.resize_small_disk("64m").await;
        wait_for_index(&ada).await;
        mailbox.assert_found(&ada, &mut random).await;

        // The disk is full when the index is updated.
        let filler = host.path_on_small_disk(&folder).join("filler");
        let mut file = std::fs::File::create(&filler).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
        mailbox.append(&mut client, 150).await;
        let full = Instant::now();
        while full.elapsed() < FULL {
            mailbox.assert_found(&ada, &mut random).await;
            sleep(Duration::from_millis(500)).await;
        }
        assert!(host.is_running());
        drop(file);
        std::fs::remove_file(&filler).unwrap();
        wait_for_index(&ada).await;
        mailbox.assert_found(&ada, &mut random).await;
        assert!(is_ready(&ada).await);
    }
}
