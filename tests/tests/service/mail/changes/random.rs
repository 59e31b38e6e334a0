//! A client that applies pages of random sizes has the mailbox after any changes by another client.

use latchmail_tests::{MailboxCopy, Model, Random, Service, imap};

/// Changes between two checkpoints.
const CHANGES: usize = 25;

/// Returns a number of changes per page. Small pages are frequent.
fn limit(random: &mut Random) -> usize {
    match random.below(3) {
        0 => 1,
        1 => 1 + random.below(10),
        _ => 1 + random.below(500),
    }
}

#[tokio::test]
async fn a_client_that_applies_the_changes_has_the_mailbox() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let mut model = Model::of(&mut client, 36).await;
    let mut random = Random::new(1);
    let mut copy = MailboxCopy::of(&ada).await;
    // This client reads the changes seldom, so they are collapsed.
    let mut late = copy.clone();
    for checkpoint in 1..=12 {
        for _ in 0..CHANGES {
            model.change(&mut client).await;
            if random.one_in(5) {
                // Another page or a listing between the changes.
                let rest = format!("&limit={}", limit(&mut random));
                let page = ada.changes(&copy.cursor, &rest).await.succeeds(200);
                copy.apply(&page);
            }
        }
        copy.update(&ada, || limit(&mut random)).await;
        let expected = ada.content_equal_to_imap(&mut client).await;
        assert_eq!(copy.content(), expected, "checkpoint {checkpoint}");
        if checkpoint % 4 == 0 {
            late.update(&ada, || limit(&mut random)).await;
            assert_eq!(late.content(), expected, "checkpoint {checkpoint}");
        }
    }
}

#[tokio::test]
async fn a_snapshot_that_is_taken_during_changes_becomes_the_mailbox() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    let mut model = Model::of(&mut client, 7).await;
    for _ in 0..100 {
        model.change(&mut client).await;
    }
    let mut random = Random::new(2);
    for _ in 0..3 {
        // The other client changes messages while this one lists the folders.
        let (mut copy, ()) = tokio::join!(MailboxCopy::of(&ada), async {
            for _ in 0..20 {
                model.change_message(&mut client).await;
            }
        });
        copy.update(&ada, || limit(&mut random)).await;
        let expected = ada.content_equal_to_imap(&mut client).await;
        assert_eq!(copy.content(), expected);
    }
}
