use super::*;
use crate::accounts::Account;
use crate::sealed::SealedColumn;
use crate::testing::{Fresh, NOW, both, session};

/// The password hash of every account of the fixtures.
const HASH: &str = "$argon2id$secret";

async fn with_two_factor(fresh: &Fresh) {
    fresh.directory.with("a", "ada@example.org", &[]).await;
    let codes = ["one".to_owned(), "two".to_owned()];
    let origin = Origin::operator();
    let set = fresh
        .directory
        .second_factors
        .set("a", b"sealed", &codes, NOW, &origin);
    assert!(set.await.unwrap());
}

/// A code of the secret that the account got at [`NOW`].
const fn code(step: i64) -> Factor {
    Factor::Code { step, since: NOW }
}

async fn ada(directory: &Directory) -> Account {
    let found = directory.accounts.by_address("ada@example.org").await;
    found.unwrap().unwrap()
}

async fn sign_in(directory: &Directory, sid: &str, factor: Factor) -> SignIn {
    let session = session(sid, "a", NOW);
    directory
        .second_factors
        .sign_in(&session, HASH, &factor, &Origin::default())
        .await
        .unwrap()
}

async fn a_code_is_good_once_and_older_ones_are_over(fresh: Fresh) {
    with_two_factor(&fresh).await;
    let directory = &fresh.directory;
    let step = async |sid, step| sign_in(directory, sid, code(step)).await;
    assert_eq!(step("s1", 7).await, SignIn::Begun);
    assert_eq!(step("s2", 7).await, SignIn::CodeUsed);
    assert_eq!(step("s3", 6).await, SignIn::CodeUsed);
    assert_eq!(step("s4", 8).await, SignIn::Begun);
    assert_eq!(
        directory
            .second_factors
            .find("a")
            .await
            .unwrap()
            .unwrap()
            .last_step,
        8
    );
    assert_eq!(fresh.number("SELECT COUNT(*) FROM sessions").await, 2);
}

async fn a_recovery_code_is_good_once_and_the_record_says_how_many_are_left(fresh: Fresh) {
    with_two_factor(&fresh).await;
    let directory = &fresh.directory;
    let recovery = |hash: &str| Factor::RecoveryCode(hash.into());
    assert_eq!(
        sign_in(directory, "s1", recovery("one")).await,
        SignIn::Begun
    );
    assert_eq!(
        sign_in(directory, "s2", recovery("one")).await,
        SignIn::CodeUsed
    );
    assert_eq!(
        sign_in(directory, "s3", recovery("none")).await,
        SignIn::CodeUsed
    );
    let left = directory.second_factors.find("a").await.unwrap().unwrap();
    assert_eq!(left.recovery_codes, ["two"]);
    let said = "SELECT COUNT(*) FROM security_events \
        WHERE kind = 'signed_in' AND detail = 'Firefox, with a recovery code; 1 left'";
    assert_eq!(fresh.number(said).await, 1);
}

async fn of_parallel_sign_ins_with_one_code_one_wins(fresh: Fresh) {
    with_two_factor(&fresh).await;
    for factor in [code(7), Factor::RecoveryCode("one".into())] {
        let contenders: Vec<_> = (0..8)
            .map(|n| {
                let (directory, factor) = (fresh.directory.clone(), factor.clone());
                let sid = format!("{n}{factor:?}");
                tokio::spawn(async move { sign_in(&directory, &sid, factor).await })
            })
            .collect();
        let mut begun = 0;
        for contender in contenders {
            if contender.await.unwrap() == SignIn::Begun {
                begun += 1;
            }
        }
        assert_eq!(begun, 1, "{factor:?}");
    }
    assert_eq!(fresh.number("SELECT COUNT(*) FROM sessions").await, 2);
}

async fn what_changed_since_the_password_was_checked_counts(fresh: Fresh) {
    fresh.directory.with("a", "ada@example.org", &[]).await;
    let directory = &fresh.directory;
    let origin = Origin::operator();
    assert_eq!(
        sign_in(directory, "s1", Factor::None).await,
        SignIn::Begun,
        "no factor, none asked for"
    );
    assert_eq!(
        sign_in(directory, "s2", code(1)).await,
        SignIn::AccountChanged,
        "switched off"
    );
    let other = directory
        .second_factors
        .sign_in(&session("s3", "a", NOW), "another", &Factor::None, &origin)
        .await;
    assert_eq!(other.unwrap(), SignIn::AccountChanged, "another password");
    directory
        .second_factors
        .set("a", b"sealed", &[], NOW, &origin)
        .await
        .unwrap();
    assert_eq!(
        sign_in(directory, "s4", Factor::None).await,
        SignIn::AccountChanged,
        "switched on"
    );
    fresh.execute("UPDATE accounts SET active = FALSE").await;
    assert_eq!(
        sign_in(directory, "s5", code(1)).await,
        SignIn::AccountChanged,
        "disabled"
    );
    assert_eq!(fresh.number("SELECT COUNT(*) FROM sessions").await, 1);
    assert_eq!(
        fresh.number("SELECT last_step FROM two_factor").await,
        0,
        "no code was used up"
    );
}

async fn a_code_of_a_secret_that_was_replaced_is_no_good(fresh: Fresh) {
    with_two_factor(&fresh).await;
    let (directory, origin) = (&fresh.directory, Origin::operator());
    let later = NOW.plus(FIRST_WAIT);
    directory
        .second_factors
        .remove("a", NOW, &origin)
        .await
        .unwrap();
    let set = directory
        .second_factors
        .set("a", b"other", &[], later, &origin);
    assert!(set.await.unwrap());
    assert_eq!(sign_in(directory, "s1", code(7)).await, SignIn::CodeUsed);
    directory
        .keys
        .reseal(SealedColumn::TwoFactor, "a", b"other", b"anew")
        .await
        .unwrap();
    let factor = Factor::Code {
        step: 7,
        since: later,
    };
    assert_eq!(sign_in(directory, "s2", factor).await, SignIn::Begun);
}

async fn it_is_switched_on_and_off_once_each(fresh: Fresh) {
    with_two_factor(&fresh).await;
    let directory = &fresh.directory;
    let origin = Origin::operator();
    let again = directory
        .second_factors
        .set("a", b"other", &[], NOW, &origin);
    assert!(!again.await.unwrap());
    let found = directory.second_factors.find("a").await.unwrap().unwrap();
    assert_eq!(found.sealed_secret, b"sealed");
    let codes = ["three".to_owned()];
    let replaced = directory
        .second_factors
        .replace_recovery_codes("a", &codes, NOW, &origin);
    assert!(replaced.await.unwrap());
    let found = directory.second_factors.find("a").await.unwrap().unwrap();
    assert_eq!(found.recovery_codes, codes);
    let off = async || {
        directory
            .second_factors
            .remove("a", NOW, &origin)
            .await
            .unwrap()
    };
    assert!(off().await);
    assert!(!off().await);
    assert!(directory.second_factors.find("a").await.unwrap().is_none());
    let replaced = directory
        .second_factors
        .replace_recovery_codes("a", &codes, NOW, &origin);
    assert!(!replaced.await.unwrap());
    assert_eq!(fresh.number("SELECT COUNT(*) FROM recovery_codes").await, 0);
    let recorded = "SELECT COUNT(*) FROM security_events WHERE actor = 'operator'";
    assert_eq!(fresh.number(recorded).await, 3);
}

async fn wrong_codes_in_a_row_cost_ever_more_time(fresh: Fresh) {
    with_two_factor(&fresh).await;
    let (directory, origin) = (&fresh.directory, Origin::default());
    let ada = ada(directory).await;
    let wrong = async |times: u32| {
        for _ in 0..times {
            let counted = directory
                .second_factors
                .wrong_code(&ada.id, NOW, &origin)
                .await;
            counted.unwrap();
        }
        let found = directory.second_factors.find("a").await.unwrap().unwrap();
        found.refused_until.since(NOW).as_secs() / 60
    };
    assert_eq!(wrong(9).await, 0);
    for minutes in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1440, 1440] {
        assert_eq!(wrong(1).await, minutes);
    }
    assert_eq!(wrong(60).await, 1440);
    let said = "SELECT COUNT(*) FROM security_events WHERE kind = 'sign_in_failed' \
        AND detail = 'wrong two-factor code, 11 in a row: codes are refused until 2099-01-01T00:02:00.000Z'";
    assert_eq!(fresh.number(said).await, 1);

    let step = code(7);
    let refused = sign_in(directory, "s1", step.clone()).await;
    assert_eq!(refused, SignIn::CodeUsed, "the right one is refused too");
    let recovery = Factor::RecoveryCode("one".into());
    assert_eq!(sign_in(directory, "s2", recovery).await, SignIn::Begun);
    assert_eq!(wrong(9).await, 0, "a recovery code set it back");
    assert_eq!(sign_in(directory, "s3", step).await, SignIn::Begun);
    assert_eq!(wrong(9).await, 0, "and so did a code");
    assert_eq!(wrong(1).await, 1);
    let later = NewSession {
        created_at: NOW.plus(FIRST_WAIT),
        ..session("s4", "a", NOW)
    };
    let begun = directory
        .second_factors
        .sign_in(&later, HASH, &code(8), &origin)
        .await;
    assert_eq!(begun.unwrap(), SignIn::Begun, "the time is over");
}

async fn of_wrong_codes_at_once_each_counts(fresh: Fresh) {
    with_two_factor(&fresh).await;
    let ada = ada(&fresh.directory).await;
    let guesses: Vec<_> = (0..12)
        .map(|_| {
            let (directory, ada) = (fresh.directory.clone(), ada.clone());
            tokio::spawn(async move {
                directory
                    .second_factors
                    .wrong_code(&ada.id, NOW, &Origin::default())
                    .await
            })
        })
        .collect();
    for guess in guesses {
        guess.await.unwrap().unwrap();
    }
    let counted = "SELECT wrong_codes FROM two_factor";
    assert_eq!(fresh.number(counted).await, 12);
    let recorded = "SELECT COUNT(*) FROM security_events WHERE kind = 'sign_in_failed'";
    assert_eq!(fresh.number(recorded).await, 12);
}

both!(
    wrong_codes_in_a_row_cost_ever_more_time,
    of_wrong_codes_at_once_each_counts,
    a_code_is_good_once_and_older_ones_are_over,
    a_recovery_code_is_good_once_and_the_record_says_how_many_are_left,
    of_parallel_sign_ins_with_one_code_one_wins,
    what_changed_since_the_password_was_checked_counts,
    a_code_of_a_secret_that_was_replaced_is_no_good,
    it_is_switched_on_and_off_once_each,
);

#[test]
fn debug_output_shows_no_secret() {
    let two_factor = TwoFactor {
        sealed_secret: b"sealed".to_vec(),
        created_at: NOW,
        last_step: 1,
        refused_until: NOW,
        recovery_codes: vec!["a-hash".into()],
    };
    let shown = format!("{two_factor:?}");
    assert!(!shown.contains("sealed_secret") && !shown.contains("a-hash"));
}
