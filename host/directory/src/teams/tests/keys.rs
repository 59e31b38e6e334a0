//! The key of a shared mailbox: revocation and resealing.

use super::{AppPasswordKind, MANAGE_AND_READ, READ, four, invite, remove, team};
use crate::caller::Origin;
use crate::credentials::Revocation;
use crate::permissions::Resource;
use crate::sealed::SealedColumn;
use crate::teams::Refusal;
use crate::testing::{Fresh, NOW, both};

async fn a_revoked_key_shuts_all_guests_out_until_the_owner_invites_again(fresh: Fresh) {
    four(&fresh).await;
    invite(&fresh, "ada", "bob", Resource::Mailbox, MANAGE_AND_READ)
        .await
        .unwrap();
    let (directory, origin) = (&fresh.directory, Origin::default());
    let gone = directory
        .credentials
        .revoke_app_password("ada", "key-for-bob", NOW, &origin);
    assert_eq!(
        gone.await.unwrap(),
        Revocation::Revoked(AppPasswordKind::TeamKey)
    );
    let shut = team(&fresh).await;
    assert!(!shut.shared);
    assert_eq!(shut.members.len(), 1);
    let shared = directory.teams.shared_mailbox("ada", "bob").await.unwrap();
    assert!(shared.is_none());
    // A manager cannot create a new key.
    let refused = invite(&fresh, "bob", "cyd", Resource::Mailbox, READ).await;
    assert!(matches!(refused, Err(Refusal::NoTeam)));
    invite(&fresh, "ada", "dan", Resource::Mailbox, READ)
        .await
        .unwrap();
    let open = directory.teams.shared_mailbox("ada", "bob").await.unwrap();
    assert_eq!(open.unwrap().app_password_id, "key-for-dan");

    let gone = directory
        .credentials
        .revoke_app_password("ada", "key-for-dan", NOW, &origin);
    gone.await.unwrap();
    let (left, other) = (
        remove(&fresh, "bob", "bob").await,
        remove(&fresh, "dan", "bob").await,
    );
    assert_eq!(left.unwrap(), None);
    assert!(matches!(other, Err(Refusal::NoTeam)));
}

async fn a_key_is_sealed_anew_unless_it_was_replaced(fresh: Fresh) {
    four(&fresh).await;
    invite(&fresh, "ada", "bob", Resource::Mailbox, READ)
        .await
        .unwrap();
    let directory = &fresh.directory;
    let keys = async || {
        let sealed = directory.keys.sealed(SealedColumn::TeamKey, b"", "", 10);
        sealed.await.unwrap()
    };
    assert_eq!(keys().await, [("ada".into(), b"key-for-bob".to_vec())]);
    for (before, after) in [(b"other".as_slice(), b"x"), (b"key-for-bob", b"y")] {
        directory
            .keys
            .reseal(SealedColumn::TeamKey, "ada", before, after)
            .await
            .unwrap();
    }
    assert_eq!(keys().await, [("ada".into(), b"y".to_vec())]);
}

both!(
    a_revoked_key_shuts_all_guests_out_until_the_owner_invites_again,
    a_key_is_sealed_anew_unless_it_was_replaced,
);
