//! Nielsen's 35 algorithms (1977).

use pagewise::nielsen::*;

strategies! {
    InBand in 256 << 10;
    i_1: true, |config, source| I1::new(config.page_size, source, ());
    i_2: true, |config, source| I2::new(config.page_size, source, ());
    i_3: true, |config, source| I3::new(config.page_size, source, ());
    i_4: true, |config, source| I4::new(config.page_size, source, ());
    i_5: true, |config, source| I5::new(config.page_size, source, ());
    i_6: true, |config, source| I6::new(config.page_size, source, ());
    i_7: true, |config, source| I7::new(config.page_size, source, ());
    i_8: true, |config, source| I8::new(config.page_size, source, ());
    ii_1: true, |config, source| II1::new(config.page_size, source, ());
    ii_2: true, |config, source| II2::new(config.page_size, source, ());
    ii_3: true, |config, source| II3::new(config.page_size, source, ());
    ii_4: true, |config, source| II4::new(config.page_size, source, ());
    ii_5: true, |config, source| II5::new(config.page_size, source, ());
    ii_6: true, |config, source| II6::new(config.page_size, source, ());
    ii_7: true, |config, source| II7::new(config.page_size, source, ());
    ii_8: true, |config, source| II8::new(config.page_size, source, ());
    iii_1: true, |config, source| III1::new(config.page_size, source, ());
    iii_2: true, |config, source| III2::new(config.page_size, source, ());
    iii_3: true, |config, source| III3::new(config.page_size, source, ());
    iii_4: true, |config, source| III4::new(config.page_size, source, ());
    iii_5: true, |config, source| III5::new(config.page_size, source, ());
    iii_6: true, |config, source| III6::new(config.page_size, source, ());
    iv_1: true, |config, source| IV1::new(config.page_size, source, ());
    iv_2: true, |config, source| IV2::new(config.page_size, source, ());
    iv_3: true, |config, source| IV3::new(config.page_size, source, ());
    iv_4: true, |config, source| IV4::new(config.page_size, source, ());
    iv_5: true, |config, source| IV5::new(config.page_size, source, ());
    v_1: true, |config, source| V1::new(config.page_size, source, ());
    v_2: true, |config, source| V2::new(config.page_size, source, ());
    v_3: true, |config, source| V3::new(config.page_size, source, ());
    v_4: true, |config, source| V4::new(config.page_size, source, ());
    v_5: true, |config, source| V5::new(config.page_size, source, ());
    v_6: true, |config, source| V6::new(config.page_size, source, ());
    vi_1: true, |config, source| VI1::new(config.page_size, source, ());
    vi_2: true, |config, source| VI2::new(config.page_size, source, ());
}
