use latchmail_core::caller::OperatorScope;

use super::*;
use crate::operator_tokens::{NewOperatorToken, OperatorToken};
use crate::testing::{Fresh, NOW, account, both};

fn record(id: &str) -> NewRecord {
    NewRecord {
        account: NewAccount {
            profile: None,
            ..account(id, &format!("{id}@example.org"))
        },
        active: true,
        forward: None,
        names: Names {
            external_id: Some(format!("external {id}")),
            first_name: Some("Ada".into()),
            ..Names::default()
        },
    }
}

async fn created(fresh: &Fresh, new: &NewRecord) -> Record {
    let accounts = &fresh.directory.accounts;
    let created = accounts.create_record(new, None, &Origin::operator()).await;
    match created.unwrap() {
        Provision::Created(record) => record,
        other => panic!("{other:?}"),
    }
}

async fn update(
    fresh: &Fresh,
    id: &str,
    update: RecordUpdate,
    versions: Option<&[String]>,
) -> Result<Updated, Refusal> {
    let accounts = &fresh.directory.accounts;
    let origin = Origin::operator();
    let updated = accounts.update_record(id, &update, versions, NOW, &origin);
    updated.await.unwrap()
}

async fn a_created_account_is_read_as_it_was_created(fresh: Fresh) {
    let ada = created(&fresh, &record("ada")).await;
    let accounts = &fresh.directory.accounts;
    assert!(accounts.record("ada").await.unwrap().as_ref() == Some(&ada));
    let found = accounts
        .record_by_external_id("external ada")
        .await
        .unwrap();
    assert!(found.as_ref() == Some(&ada));
    assert_eq!(ada.names.first_name.as_deref(), Some("Ada"));
    // A profile needs a last name and a date of birth too.
    assert_eq!(accounts.profile("ada").await.unwrap(), None);
    let names = NamesUpdate {
        last_name: Some(Some("King".into())),
        dob: Some(Some("1990-12-10".into())),
        ..NamesUpdate::default()
    };
    let change = RecordUpdate {
        names,
        ..RecordUpdate::default()
    };
    let changed = update(&fresh, "ada", change, None).await.unwrap();
    assert_eq!(changed.after.names.last_name.as_deref(), Some("King"));
    let profile = accounts.profile("ada").await.unwrap().unwrap();
    assert_eq!(profile.first_name, "Ada");
    let clear = RecordUpdate {
        names: NamesUpdate {
            first_name: Some(None),
            ..NamesUpdate::default()
        },
        ..RecordUpdate::default()
    };
    let changed = update(&fresh, "ada", clear, None).await.unwrap();
    assert_eq!(changed.after.names.dob.as_deref(), Some("1990-12-10"));
    assert_eq!(accounts.profile("ada").await.unwrap(), None);
}

async fn a_change_with_another_version_changes_nothing(fresh: Fresh) {
    let ada = created(&fresh, &record("ada")).await;
    let change = || RecordUpdate {
        address: Some("king@example.org".into()),
        active: Some(false),
        plan: Some("large".into()),
        ..RecordUpdate::default()
    };
    let other = ["another".to_owned()];
    let refused = update(&fresh, "ada", change(), Some(&other)).await;
    assert_eq!(refused.unwrap_err(), Refusal::VersionMismatch);
    let versions = ["another".to_owned(), ada.version()];
    let changed = update(&fresh, "ada", change(), Some(&versions))
        .await
        .unwrap();
    let after = &changed.after;
    assert_eq!(
        (&*after.address, after.active, &*after.plan),
        ("king@example.org", false, "large")
    );
    assert_ne!(after.version(), ada.version());
    let again = update(&fresh, "ada", change(), Some(&versions)).await;
    assert_eq!(again.unwrap_err(), Refusal::VersionMismatch);
}

async fn a_refused_change_leaves_no_part(fresh: Fresh) {
    let ada = created(&fresh, &record("ada")).await;
    created(&fresh, &record("bob")).await;
    let change = RecordUpdate {
        plan: Some("large".into()),
        active: Some(false),
        names: NamesUpdate {
            external_id: Some(Some("external bob".into())),
            ..NamesUpdate::default()
        },
        ..RecordUpdate::default()
    };
    let refused = update(&fresh, "ada", change, None).await;
    assert_eq!(refused.unwrap_err(), Refusal::ExternalIdTaken);
    let after = fresh.directory.accounts.record("ada").await.unwrap();
    assert!(after.as_ref() == Some(&ada));
    let taken = RecordUpdate {
        address: Some("bob@example.org".into()),
        ..RecordUpdate::default()
    };
    let refused = update(&fresh, "ada", taken, None).await;
    assert_eq!(refused.unwrap_err(), Refusal::AddressTaken);
}

async fn a_repeated_creation_returns_the_first_account(fresh: Fresh) {
    let directory = &fresh.directory;
    let token = NewOperatorToken {
        token: OperatorToken {
            id: "token".into(),
            name: "terraform".into(),
            scopes: vec![OperatorScope::AccountsWrite],
            hint: "wxyz".into(),
            created_at: NOW,
            expires_at: None,
            last_used_at: None,
        },
        secret_hash: "hash".into(),
    };
    let origin = Origin::operator();
    directory
        .operator_tokens
        .create(&token, &origin)
        .await
        .unwrap();
    let key = RequestKey {
        token: "token".into(),
        hash: "key".into(),
        fingerprint: "ada".into(),
    };
    let create = async |id: &str, key: &RequestKey| {
        let created = directory
            .accounts
            .create_record(&record(id), Some(key), &origin)
            .await;
        created.unwrap()
    };
    assert!(matches!(create("ada", &key).await, Provision::Created(_)));
    let Provision::Repeated(Some(again)) = create("eve", &key).await else {
        panic!("the request was not repeated");
    };
    assert_eq!(again.id, "ada");
    let other = RequestKey {
        fingerprint: "other".into(),
        ..key.clone()
    };
    assert!(matches!(create("eve", &other).await, Provision::KeyReused));
    // A refused request does not use up its key.
    let second = RequestKey {
        hash: "second".into(),
        ..key
    };
    let refused = create("ada", &second).await;
    assert!(matches!(refused, Provision::Refused(Refusal::AddressTaken)));
    assert!(matches!(
        create("eve", &second).await,
        Provision::Created(_)
    ));
}

async fn pages_contain_every_account_once(fresh: Fresh) {
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        created(&fresh, &record(name)).await;
    }
    let disable = RecordUpdate {
        active: Some(false),
        ..RecordUpdate::default()
    };
    update(&fresh, "c", disable, None).await.unwrap();
    let accounts = &fresh.directory.accounts;
    let mut seen: Vec<String> = Vec::new();
    loop {
        let after = seen.last().cloned().unwrap_or_default();
        let page = accounts.records_after(&after, None, 2).await.unwrap();
        if page.is_empty() {
            break;
        }
        seen.extend(page.into_iter().map(|one| one.id));
    }
    assert_eq!(seen, names);
    let ids = |records: Vec<Record>| records.into_iter().map(|one| one.id).collect::<Vec<_>>();
    let active = accounts.records_after("a", Some(true), 9).await.unwrap();
    assert_eq!(ids(active), ["b", "d", "e"]);
    let (total, page) = accounts.records_at(1, Some(true), 2).await.unwrap();
    assert_eq!((total, ids(page)), (4, vec!["b".into(), "d".into()]));
    assert_eq!(accounts.records_at(0, None, 0).await.unwrap().0, 5);
}

both!(
    a_created_account_is_read_as_it_was_created,
    a_change_with_another_version_changes_nothing,
    a_refused_change_leaves_no_part,
    a_repeated_creation_returns_the_first_account,
    pages_contain_every_account_once,
);
